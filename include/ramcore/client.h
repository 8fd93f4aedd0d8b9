#pragma once

// The library is compiled with libstdc++ and its strings of C++11. With others it would link, and read one string for
// another. What else a program chooses (_GLIBCXX_DEBUG, _GLIBCXX_ASSERTIONS, another compiler) does not matter: no
// container of the standard library crosses its border but std::string, which all of these have in common.
#include <version>
#if defined(_LIBCPP_VERSION)
#error "libramcore is built with libstdc++: compile without -stdlib=libc++"
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error "libramcore is built with the strings of C++11: compile without -D_GLIBCXX_USE_CXX11_ABI=0"
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramcore/future.h"
#include "ramcore/result.h"
#include "ramcore/types.h"

namespace ramcore {

/// Ports of DPDK, which are this process's alone. DPDK is started once in a process: the first client says how.
struct DpdkOptions {
  /// Device strings of DPDK: "net_memif0,role=client,id=0,socket=/run/x", "0000:3b:00.0"; none: DPDK is not used.
  std::vector<std::string> ports;
  std::string address;       ///< "02:00:00:00:00:01", by which others know all of them; empty: that of the first
  uint32_t mtu = 1500;       ///< bytes, 576..9000
  uint32_t memory_mb = 128;  ///< for the frames of all ports
  bool huge_pages = false;   ///< that memory from reserved huge pages
  std::string arguments;     ///< more of DPDK's own command line
  bool seal = true;          ///< packets carry a MAC; so also if only the other side wants it
  std::string faults;        ///< for tests: "loss=5,..." of what arrives, in per cent
};

struct ClientOptions {
  /// Locators of the cluster's coordinator, "tcp://host:port", "verbs://host:port", "dpdk://address@number" or
  /// "shm:///path"; several if it can be reached in several ways, or if there are several coordinators. The first one
  /// that answers as a coordinator is used; when it is away, or is not in charge, another one.
  std::vector<std::string> coordinators;
  std::string cluster_name = "ramcore";  ///< must be the coordinator's
  /// File with the cluster's secret; empty: only processes of this machine can be reached.
  std::string secret_file;
  /// How long a call may take when its options do not say, retries included.
  std::chrono::nanoseconds default_timeout = std::chrono::seconds(5);
  /// How long connect() waits for an answer of the coordinator; not whether that has heard of its servers yet. Where
  /// waiting cannot help (an unknown host, a refused handshake, a port of somebody else) it fails at once.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
  /// How long a waiting thread spins before it sleeps, unless answers mostly take longer. Longer: lower latency of slow
  /// answers, more CPU.
  std::chrono::nanoseconds spin_time = std::chrono::microseconds(250);
  /// Starts a thread that polls: calls go on, and the client's lease is renewed, while the program does other things.
  /// Costs latency: every call is handed to that thread.
  bool background_thread = false;
  /// Asks for the rights that moving and splitting tablets need.
  bool administrator = false;
  /// RDMA device to use, "mlx5_0" or "mlx5_0:PORT:GID"; empty: the first active one, if there is any. Servers are
  /// reached by the best way that both sides have.
  std::string rdma_device;
  /// RoCE: traffic class of what is sent, four times the DSCP that switches look at.
  uint8_t rdma_traffic_class = 0;
  /// 0..15: the virtual lane of InfiniBand, the priority of RoCE in a VLAN.
  uint8_t rdma_service_level = 0;
  DpdkOptions dpdk;
  /// Prints one line per event on stderr: "debug", "info", "warning", "error" or "off".
  std::string log_level = "off";
};

namespace detail {

/// ClientOptions on their way into the library, without containers.
struct PlainClientOptions {
  std::span<const std::string> coordinators;
  std::string_view cluster_name;
  std::string_view secret_file;
  std::chrono::nanoseconds default_timeout;
  std::chrono::nanoseconds connect_timeout;
  std::chrono::nanoseconds spin_time;
  bool background_thread;
  bool administrator;
  std::string_view rdma_device;
  uint8_t rdma_traffic_class;
  uint8_t rdma_service_level;
  std::span<const std::string> dpdk_ports;
  std::string_view dpdk_address;
  uint32_t dpdk_mtu;
  uint32_t dpdk_memory_mb;
  bool dpdk_huge_pages;
  std::string_view dpdk_arguments;
  bool dpdk_seal;
  std::string_view dpdk_faults;
  std::string_view log_level;

  explicit PlainClientOptions(const ClientOptions& from)
      : coordinators(from.coordinators.data(), from.coordinators.size()),
        cluster_name(from.cluster_name),
        secret_file(from.secret_file),
        default_timeout(from.default_timeout),
        connect_timeout(from.connect_timeout),
        spin_time(from.spin_time),
        background_thread(from.background_thread),
        administrator(from.administrator),
        rdma_device(from.rdma_device),
        rdma_traffic_class(from.rdma_traffic_class),
        rdma_service_level(from.rdma_service_level),
        dpdk_ports(from.dpdk.ports.data(), from.dpdk.ports.size()),
        dpdk_address(from.dpdk.address),
        dpdk_mtu(from.dpdk.mtu),
        dpdk_memory_mb(from.dpdk.memory_mb),
        dpdk_huge_pages(from.dpdk.huge_pages),
        dpdk_arguments(from.dpdk.arguments),
        dpdk_seal(from.dpdk.seal),
        dpdk_faults(from.dpdk.faults),
        log_level(from.log_level) {}
};

}  // namespace detail

struct ScanOptions {
  /// For each batch; none: ClientOptions::default_timeout.
  std::optional<std::chrono::nanoseconds> timeout;
  uint32_t batch_bytes = 128 * 1024;  ///< aimed at per answer
};

/// An enumeration of a table, in no order that means anything. An object that is there all the time is given exactly
/// once, one that comes, goes or changes meanwhile at most once; tablets may move and split meanwhile. Not a snapshot.
///
///     Scan scan = client.scan(table);
///     for (const Object& object : scan) use(object);
///     if (scan.status() != Status::Ok) ...
///
/// Move-only; does not outlive its client. One thread at a time.
class Scan {
 public:
  struct State;
  explicit Scan(std::unique_ptr<State> state);
  Scan(Scan&&) noexcept;
  Scan& operator=(Scan&&) noexcept;
  ~Scan();

  /// The next object, valid until the next call; nullptr at the end or after a failure, which status() tells apart.
  const Object* next();
  /// Ok, or why the enumeration ended early. next() then tries to go on from there.
  Status status() const;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Object;
    using difference_type = std::ptrdiff_t;
    using pointer = const Object*;
    using reference = const Object&;
    Iterator() = default;
    explicit Iterator(Scan& scan) : scan_(&scan), object_(scan.next()) {}
    const Object& operator*() const { return *object_; }
    const Object* operator->() const { return object_; }
    Iterator& operator++() {
      object_ = scan_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return object_ == other.object_; }

   private:
    Scan* scan_ = nullptr;
    const Object* object_ = nullptr;
  };
  Iterator begin() { return Iterator(*this); }
  Iterator end() { return {}; }

 private:
  std::unique_ptr<State> state_;
};

/// A connection to one Ramcore cluster. Thread-safe: threads that call at the same time share its sessions.
///
/// No thread of its own unless asked for: a call is carried by the thread that waits for it. Keys have 1 to
/// kKeyBytesLimit bytes, values up to kValueBytesLimit; other sizes give BadRequest and TooLarge.
///
/// What every call may give, besides its own statuses:
///   NoSuchTable       the table was dropped
///   DeadlineExceeded  no answer in time
///   Unreachable       no connection to the owner of the key or to the coordinator
///   Refused           cluster name, secret or version are not the cluster's, or what was named as its coordinator is
///                     none
///   WrongCluster      the coordinator that answers is of another cluster than the one before
///   StateBehind       the coordinator runs on an older copy of its state and serves nobody
///   LimitReached      there are as many tables, tablets or clients as a cluster may have
///   TooFewReplicas    of writes: too few servers kept copies, until the deadline
///   Corrupt           the object's bytes are lost
///   NoSpace           of writes: the owner's memory is full
///   CoordinatorFull   the disk of the coordinator's storage is full; a table that was being made or dropped may be
///                     once there is room
///   Shutdown          the client is being destroyed
///   Forked            this process was forked after the client was made: make another client here
///   OutcomeUnknown    of a change: it was sent and no answer came in time. It may have happened, or may still
/// With every status but Ok, OutcomeUnknown and CoordinatorFull a change (a mutation, a table made or dropped) has not
/// happened and will not.
class Client {
 public:
  /// Connects to the coordinator. The failure's message names cause and remedy.
  static Outcome<Client> connect(const ClientOptions& options) { return connect(detail::PlainClientOptions(options)); }
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  /// No call is running in another thread, and no Future or Scan of this client is left. Calls whose futures were
  /// dropped end; their mutations may have happened or not.
  /// In a forked process it leaves the client of the other one alone: nothing is closed, nobody hears of it.
  ~Client();

  // ---- tables

  /// @param tablet_count  into how many pieces the key space is cut, spread over the servers; 0: one per server.
  /// TableExists: there is one of this name, of whatever kind; listTables() says which. BadRequest: no name for a
  /// table. LimitReached: too many tables or tablets.
  Result<Table> createTable(std::string_view name, uint32_t tablet_count = 0, const CallOptions& options = {});
  /// The same, of another durability than Buffered if asked for: see ramcore/durability.h for what each survives and
  /// costs.
  Result<Table> createTable(std::string_view name, const TableOptions& table, const CallOptions& options = {});
  /// The table with all its objects. NoSuchTable.
  Status dropTable(std::string_view name, const CallOptions& options = {});
  Result<std::vector<TableInfo>> listTables(const CallOptions& options = {}) {
    std::vector<TableInfo> tables;
    const Status status = listTables(
        [](void* to, TableInfo& table) { static_cast<std::vector<TableInfo>*>(to)->push_back(std::move(table)); },
        &tables, options);
    if (status != Status::Ok) return status;
    return tables;
  }
  /// NoSuchTable.
  Result<Table> openTable(std::string_view name, const CallOptions& options = {});

  // ---- one object

  /// NotFound.
  Result<ReadResult> read(Table table, std::string_view key, const CallOptions& options = {});
  /// Puts the value into `value`, keeping its memory, and gives the version.
  Result<uint64_t> read(Table table, std::string_view key, std::string& value, const CallOptions& options = {});
  /// Puts the start of the value into `buffer`.
  Result<ReadSize> read(Table table, std::string_view key, std::span<std::byte> buffer,
                        const CallOptions& options = {});
  /// Creates or replaces. NotFound, ObjectExists, WrongVersion: the condition failed.
  MutateResult write(Table table, std::string_view key, std::string_view value, const CallOptions& options = {});
  /// Ok also if there was no such object, unless the condition asks for one.
  MutateResult remove(Table table, std::string_view key, const CallOptions& options = {});
  /// Adds to a value of 8 bytes, a little-endian integer; an object that is not there counts as 0. Wraps around.
  /// TypeMismatch: the value has another size.
  MutateResult increment(Table table, std::string_view key, int64_t delta, const CallOptions& options = {});

  // ---- several objects at once; not atomic: every item has its own outcome

  /// Fills status, version and value of each item. Returns how many have another status than Ok.
  size_t multiRead(std::span<ReadItem> items, const CallOptions& options = {});
  /// Fills status and version of each item; the condition of `options` is not looked at. Items with equal keys take
  /// effect in any order. Returns how many have another status than Ok.
  size_t multiMutate(std::span<MutateItem> items, const CallOptions& options = {});

  // ---- enumeration

  Scan scan(Table table, const ScanOptions& options = {});

  // ---- futures; keys and values are copied, items and their bytes stay in place until the result is there (of a
  // dropped future: as long as the client)

  Future<Result<ReadResult>> readAsync(Table table, std::string_view key, const CallOptions& options = {});
  Future<MutateResult> writeAsync(Table table, std::string_view key, std::string_view value,
                                  const CallOptions& options = {});
  Future<MutateResult> removeAsync(Table table, std::string_view key, const CallOptions& options = {});
  Future<MutateResult> incrementAsync(Table table, std::string_view key, int64_t delta,
                                      const CallOptions& options = {});
  Future<size_t> multiReadAsync(std::span<ReadItem> items, const CallOptions& options = {});
  Future<size_t> multiMutateAsync(std::span<MutateItem> items, const CallOptions& options = {});

  /// Makes progress with everything that is running, without waiting. Returns true if there was anything to do. A
  /// program without a background thread that keeps futures for long calls it now and then.
  bool poll();

  struct Impl;
  /// For the tools of this repository, which need more than programs do.
  Impl& impl() { return *impl_; }

 private:
  explicit Client(std::unique_ptr<Impl> impl);
  static Outcome<Client> connect(const detail::PlainClientOptions& options);
  Status listTables(void (*add)(void* to, TableInfo& table), void* to, const CallOptions& options);

  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcore
