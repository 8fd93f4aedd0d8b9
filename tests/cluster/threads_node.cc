#include "tests/cluster/threads_node.h"

#include <cstdlib>

#include "base/check.h"

namespace ramcore::cluster {
namespace {

constexpr int64_t kStopNsMax = 60 * runtime::kNanosPerSecond;

// RAMCORE_TEST_TRACE=1 shows what the nodes say.
Trace& traceOfTests() { return std::getenv("RAMCORE_TEST_TRACE") != nullptr ? stderrTrace("cluster") : silentTrace(); }

}  // namespace

struct ThreadNode::FirstJob : runtime::Job {
  explicit FirstJob(std::function<void()> work)
      : Job([](runtime::Job& job) { static_cast<FirstJob&>(job).first(); }), first(std::move(work)) {}
  std::function<void()> first;
};

// The order in which a daemon ends: see Process in tools/support.
struct ThreadNode::StopJob : runtime::Job, runtime::Timer {
  StopJob(ThreadNode& owner, std::function<void()> begin, std::function<bool()> end)
      : Job([](runtime::Job& job) { static_cast<StopJob&>(job).begin(); }),
        Timer([](runtime::Timer& timer) { static_cast<StopJob&>(timer).look(); }),
        node(owner),
        on_stop(std::move(begin)),
        stopped(std::move(end)) {}
  void begin() {
    give_up_ns = node.clock_.nowNs() + kStopNsMax;
    node.dispatch_.refuseRequests();
    on_stop();
    look();
  }
  void look() {
    const int64_t now_ns = node.clock_.nowNs();
    if (!shut_down && stopped()) {
      shut_down = true;
      node.caller_->shutDown();
    }
    has_stopped = shut_down && stopped() && !node.dispatch_.hasRequests();
    if (has_stopped || now_ns >= give_up_ns) {
      node.dispatch_.stop();
      return;
    }
    node.dispatch_.arm(*this, now_ns + runtime::kNanosPerMilli);
  }
  ThreadNode& node;
  std::function<void()> on_stop;
  std::function<bool()> stopped;
  int64_t give_up_ns = 0;
  bool shut_down = false;
  bool has_stopped = false;
};

ThreadNode::ThreadNode(const NodeSettings& settings, const std::function<runtime::ExecutorHooks()>& hooks)
    : trace_(traceOfTests()),
      identity_{.role = settings.role, .id = 0, .cluster_name = settings.cluster_name, .secret = {}},
      sleeper_(clock_),
      tcp_({}, {.clock = clock_, .entropy = entropy_, .trace = trace_, .sleeper = sleeper_}),
      shm_({}, {.clock = clock_, .entropy = entropy_, .trace = trace_, .sleeper = &sleeper_}),
      tcp_endpoint_(tcp_.makeEndpoint(identity_)),
      shm_endpoint_(shm_.makeEndpoint(identity_)),
      dispatch_(clock_, trace_, sleeper_, {.hand_off = settings.hand_off}) {
  for (const std::string& text : settings.listen) {
    auto locator = transport::Locator::parse(text);
    RC_CHECK(locator.ok());
    auto bound = (locator->scheme == "shm" ? shm_endpoint_ : tcp_endpoint_).listen(*locator);
    RC_CHECK_MSG(bound.ok(), bound.ok() ? "" : bound.error().message.c_str());
    locators_.push_back(bound->toString());
  }
  if (hooks) dispatch_.setHooks(hooks());
  dispatch_.addEndpoint(tcp_endpoint_);
  dispatch_.addEndpoint(shm_endpoint_);
  for (uint32_t i = 0; i < settings.workers; ++i) {
    workers_.push_back(std::make_unique<runtime::ThreadExecutor>(clock_, settings.name + "-w" + std::to_string(i),
                                                                 hooks ? hooks() : runtime::ExecutorHooks{}));
  }
  dispatch_.setWorkers(workers());
  caller_ = std::make_unique<rpc::Caller>(dispatch_);
}

ThreadNode::~ThreadNode() { RC_CHECK(!thread_.joinable()); }

std::vector<runtime::Executor*> ThreadNode::workers() const {
  std::vector<runtime::Executor*> workers;
  for (const auto& worker : workers_) workers.push_back(worker.get());
  return workers;
}

void ThreadNode::start(std::function<void()> first) {
  first_job_ = std::make_unique<FirstJob>(std::move(first));
  dispatch_.post(*first_job_, runtime::Priority::Membership);
  thread_ = std::thread([this] { dispatch_.run(); });
}

bool ThreadNode::stop(std::function<void()> on_stop, std::function<bool()> stopped) {
  stop_job_ = std::make_unique<StopJob>(*this, std::move(on_stop), std::move(stopped));
  dispatch_.post(*stop_job_, runtime::Priority::Membership);
  thread_.join();
  for (auto& worker : workers_) worker->stop();
  return stop_job_->has_stopped;
}

}  // namespace ramcore::cluster
