#include "tools/rcnic/probes/answerer.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <span>
#include <utility>

#include "tools/rcnic/probes/endpoint_side.h"
#include "tools/rcnic/probes/processors.h"

namespace ramcore::rcnic {
namespace {

using transport::Endpoint;
using transport::Locator;
using transport::RxMessage;
using transport::SessionId;
using transport::TxMessage;

constexpr uint32_t kAnswerBytes = 8;
// Bound for what the process says: a status, a space, and a locator or what went wrong. In fact that is far shorter.
constexpr size_t kSaidBytesMax = 4096;

struct Echo final : transport::MessageSink {
  explicit Echo(Endpoint& of) : endpoint(of) {}
  void onRequests(std::span<RxMessage> requests) override {
    for (RxMessage& request : requests) {
      TxMessage answer = endpoint.allocate(kAnswerBytes);
      std::memset(answer.extendHead(kAnswerBytes), 0, kAnswerBytes);
      endpoint.reply(request.reply_to, std::move(answer));
    }
  }
  void onSessionOpen(SessionId) override {}
  void onSessionLost(SessionId, Status) override {}
  Endpoint& endpoint;
};

void say(int to, Status status, const std::string& text) {
  const std::string line = std::to_string(static_cast<int>(status)) + " " + text;
  [[maybe_unused]] const ssize_t written = ::write(to, line.data(), std::min(line.size(), kSaidBytesMax));
  ::close(to);
}

[[noreturn]] void serve(const ProbeChoice& choice, const std::string& secret, const Locator& where, int to) {
  pinReceiver();
  auto side = EndpointSide::open(choice, secret, false);
  if (!side.ok()) {
    say(to, side.error().status, side.error().message);
    ::_exit(1);
  }
  Endpoint& endpoint = (*side)->endpoint();
  auto listening = endpoint.listen(where);
  if (!listening.ok()) {
    say(to, listening.error().status, listening.error().message);
    ::_exit(1);
  }
  say(to, Status::Ok, listening->toString());
  for (Echo echo(endpoint);;) {
    endpoint.poll(echo, endpoint.limits().burst_messages_max);
    endpoint.flush();
  }
}

// Reads until the process has said all, or has ended.
std::string hear(int from) {
  std::string said;
  std::array<char, kSaidBytesMax> bytes;
  for (;;) {
    const ssize_t count = ::read(from, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return said;
    said.append(bytes.data(), static_cast<size_t>(count));
  }
}

void end(pid_t process) {
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

}  // namespace

Outcome<std::unique_ptr<Answerer>> Answerer::start(const ProbeChoice& choice, const std::string& secret,
                                                   const Locator& where) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Failure{Status::IoError, std::string("cannot make a pipe to the receiver: ") + std::strerror(errno)};
  }
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process == 0) {
    ::close(ends[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    serve(choice, secret, where, ends[1]);
  }
  ::close(ends[1]);
  if (process < 0) {
    ::close(ends[0]);
    return Failure{Status::IoError, std::string("cannot start the receiver: ") + std::strerror(errno)};
  }
  const std::string said = hear(ends[0]);
  ::close(ends[0]);
  const size_t space = said.find(' ');
  int status = 0;
  const bool has_said =
      space != std::string::npos && std::from_chars(said.data(), said.data() + space, status).ec == std::errc();
  auto place = Locator::parse(has_said ? said.substr(space + 1) : "");
  if (has_said && status == static_cast<int>(Status::Ok) && place.ok()) {
    return std::unique_ptr<Answerer>(new Answerer(process, *place));
  }
  end(process);
  if (has_said) return Failure{static_cast<Status>(status), said.substr(space + 1)};
  return Failure{Status::IoError, "the receiving process ended before it listened; the lines above may say why"};
}

Answerer::~Answerer() { end(process_); }

}  // namespace ramcore::rcnic
