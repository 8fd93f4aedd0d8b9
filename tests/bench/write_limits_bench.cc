// The lower bound of a replicated write on this machine: the same messages, and nothing else.
//
//   bench_write_limits --limit tcp|shm|sync [--copies N] [--seconds S]
//
// tcp, shm: a client, a primary and N backups, a process each. A request goes from the client to the primary, from
// there with the bytes of a copy to all backups, and when all have answered the client gets its answer. Everybody
// sleeps until something comes (blocking sockets; futexes on shared memory), because there may be fewer cores than
// processes. sync: N threads write 4 KB each into a file of their own and flush it (pwrite, fdatasync); all together
// are one turn. Prints one line of JSON: turns, and the median, 90th and 99th percentile of their latency.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <barrier>
#include <thread>

#include "bench/support/bench_cluster.h"
#include "bench/support/flags.h"
#include "bench/support/raw_peers.h"
#include "bench/support/statistics.h"
#include "bench/support/workload.h"
#include "wire/frame.h"
#include "wire/master_messages.h"
#include "wire/replica_messages.h"

namespace ramcore::bench {
namespace {

constexpr size_t kAskBytes = wire::frameBytes(sizeof(wire::Write::Request) + kKeyBytes + kValueBytes);
constexpr size_t kAnswerBytes = wire::frameBytes(sizeof(wire::Write::Response));
// An overwrite logs the object, the tombstone of the one before, and the result of the call.
constexpr size_t kGroupBytes = 280;
constexpr size_t kCopyBytes = wire::frameBytes(sizeof(wire::WriteReplica::Request) + kGroupBytes);
constexpr size_t kCopiedBytes = wire::frameBytes(sizeof(wire::WriteReplica::Response));
constexpr size_t kMessageMax = 1024;

/// One direction between two processes.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual void send(size_t bytes) = 0;
  virtual void receive(size_t bytes) = 0;
};

/// Both ends are open in every process; each uses one.
class SocketChannel final : public Channel {
 public:
  explicit SocketChannel(int fd) : fd_(fd) {}
  void send(size_t bytes) override { sendAll(fd_, std::string_view(buffer_, bytes)); }
  void receive(size_t bytes) override {
    for (size_t done = 0; done < bytes;) {
      const ssize_t got = ::recv(fd_, buffer_ + done, bytes - done, 0);
      if (got <= 0) ::_exit(0);
      done += static_cast<size_t>(got);
    }
  }

 private:
  static void sendAll(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) ::_exit(0);
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  const int fd_;
  char buffer_[kMessageMax] = {};
};

/// Shared memory with a word to sleep on, for both directions.
class SharedPair {
 public:
  struct alignas(128) Direction {
    std::atomic<uint32_t> sequence;
    std::atomic<uint32_t> asleep;
    char payload[kMessageMax];
  };
  SharedPair() {
    void* memory = ::mmap(nullptr, 2 * sizeof(Direction), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap failed");
    directions_ = new (memory) Direction[2]{};
  }
  Direction& direction(int which) { return directions_[which]; }

 private:
  Direction* directions_;
};

class SharedChannel final : public Channel {
 public:
  SharedChannel(SharedPair& pair, bool first)
      : out_(pair.direction(first ? 0 : 1)), in_(pair.direction(first ? 1 : 0)) {}
  void send(size_t bytes) override {
    std::memcpy(out_.payload, buffer_, bytes);
    out_.sequence.fetch_add(1, std::memory_order_seq_cst);
    if (out_.asleep.load(std::memory_order_seq_cst) != 0) ::syscall(SYS_futex, &out_.sequence, FUTEX_WAKE, 1, nullptr);
  }
  void receive(size_t bytes) override {
    while (in_.sequence.load(std::memory_order_acquire) == seen_) {
      in_.asleep.store(1, std::memory_order_seq_cst);
      if (in_.sequence.load(std::memory_order_seq_cst) == seen_) {
        ::syscall(SYS_futex, &in_.sequence, FUTEX_WAIT, seen_, nullptr);
      }
      in_.asleep.store(0, std::memory_order_relaxed);
    }
    ++seen_;
    std::memcpy(buffer_, in_.payload, bytes);
  }

 private:
  SharedPair::Direction& out_;
  SharedPair::Direction& in_;
  uint32_t seen_ = 0;
  char buffer_[kMessageMax] = {};
};

struct Link {
  std::unique_ptr<Channel> near;
  std::unique_ptr<Channel> far;
};

Link connectOver(const std::string& transport) {
  if (transport == "shm") {
    auto* const pair = new SharedPair;  // as long as the processes
    return {std::make_unique<SharedChannel>(*pair, true), std::make_unique<SharedChannel>(*pair, false)};
  }
  uint16_t port = 0;
  const int listener = listenOnLoopback(port);
  const int near = connectToLoopback(port);
  const int far = ::accept(listener, nullptr, nullptr);
  const int on = 1;
  ::setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::close(listener);
  return {std::make_unique<SocketChannel>(near), std::make_unique<SocketChannel>(far)};
}

void say(const std::string& what, int copies, std::vector<double>& us) {
  std::printf("{\"limit\":\"%s\",\"copies\":%d,\"turns\":%zu,\"p50_us\":%.2f,\"p90_us\":%.2f,\"p99_us\":%.2f}\n",
              what.c_str(), copies, us.size(), quantile(us, 0.5), quantile(us, 0.9), quantile(us, 0.99));
}

template <typename Turn>
std::vector<double> measure(double seconds, Turn turn) {
  for (int i = 0; i < 20; ++i) turn();
  std::vector<double> us;
  for (const double end_s = nowSeconds() + seconds; nowSeconds() < end_s;) {
    const double begin_s = nowSeconds();
    turn();
    us.push_back((nowSeconds() - begin_s) * 1e6);
  }
  return us;
}

void runRelay(const std::string& transport, int copies, double seconds) {
  Link client = connectOver(transport);
  std::vector<Link> backups;
  std::vector<Child> children;
  for (int i = 0; i < copies; ++i) backups.push_back(connectOver(transport));
  for (Link& backup : backups) {
    children.push_back(Child::fork([&] {
      unpin();
      for (;;) {
        backup.far->receive(kCopyBytes);
        backup.far->send(kCopiedBytes);
      }
    }));
  }
  children.push_back(Child::fork([&] {
    unpin();
    for (;;) {
      client.far->receive(kAskBytes);
      for (Link& backup : backups) backup.near->send(kCopyBytes);
      for (Link& backup : backups) backup.near->receive(kCopiedBytes);
      client.far->send(kAnswerBytes);
    }
  }));
  std::vector<double> us = measure(seconds, [&] {
    client.near->send(kAskBytes);
    client.near->receive(kAnswerBytes);
  });
  say(transport, copies, us);
}

void runSync(int copies, double seconds) {
  constexpr size_t kBlock = 4096;
  constexpr uint64_t kFileBytes = 64u << 20;
  ScratchFolder folder;
  std::barrier begin(copies + 1), end(copies + 1);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < copies; ++i) {
    threads.emplace_back([&, i] {
      const int fd = ::open((folder / std::to_string(i)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (fd < 0 || ::posix_fallocate(fd, 0, kFileBytes) != 0 || ::fsync(fd) != 0) die("no file to write");
      const std::string block(kBlock, 'b');
      for (uint64_t turn = 0;; ++turn) {
        begin.arrive_and_wait();
        if (stop) break;
        const auto at = static_cast<off_t>(turn * kBlock % kFileBytes);
        if (::pwrite(fd, block.data(), kBlock, at) != static_cast<ssize_t>(kBlock) || ::fdatasync(fd) != 0) {
          die("a write failed");
        }
        end.arrive_and_wait();
      }
      ::close(fd);
    });
  }
  std::vector<double> us = measure(seconds, [&] {
    begin.arrive_and_wait();
    end.arrive_and_wait();
  });
  stop = true;
  begin.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  say("sync", copies, us);
}

int run(int argc, char** argv) {
  std::string what;
  int copies = 3;
  double seconds = 2;
  Flags flags;
  flags.text("--limit", what);
  flags.number("--copies", copies);
  flags.number("--seconds", seconds);
  flags.parse(argc, argv);
  if (copies < 1 || copies > 16) die("--copies: 1 to 16");
  if (what == "sync") {
    runSync(copies, seconds);
  } else if (what == "tcp" || what == "shm") {
    runRelay(what, copies, seconds);
  } else {
    die("--limit: tcp, shm or sync");
  }
  return 0;
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) { return ramcore::bench::run(argc, argv); }
