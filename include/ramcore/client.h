#pragma once

// The library is compiled with libstdc++ and its C++11 strings. A program that is compiled with another standard
// library or with the old strings would link, and would then read every string wrongly, so the compiler refuses it
// here. Other choices of the program (_GLIBCXX_DEBUG, _GLIBCXX_ASSERTIONS, another compiler) do not matter: std::string
// is the only container of the standard library that crosses the border of the library, and it is the same under all of
// them.
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

/// Ethernet ports that DPDK drives for this process alone. docs/dpdk.md explains their set-up.
///
/// DPDK is started once in a process and stays until the process ends. The first client that names ports decides about
/// `memory_mb`, `huge_pages` and `arguments`; those of later clients are ignored. If that start fails, the same failure
/// is given to every later client of the process that names ports.
struct DpdkOptions {
  /// Device strings of DPDK, such as "net_memif0,role=client,id=0,socket=/run/x" or "0000:3b:00.0". Empty: this client
  /// does not use DPDK.
  std::vector<std::string> ports;
  /// Ethernet address by which peers know all these ports, such as "02:00:00:00:00:01"; its first byte is even. Empty:
  /// the address of the first port.
  std::string address;
  uint32_t mtu = 1500;       ///< bytes, 576 to 9000
  uint32_t memory_mb = 128;  ///< memory for the Ethernet frames of all ports, in MB
  bool huge_pages = false;   ///< true: that memory is taken from reserved huge pages
  std::string arguments;     ///< more arguments for DPDK's own command line, separated by spaces
  bool seal = true;          ///< packets carry a MAC; they also do if only the peer wants it
  /// For tests: faults of the frames that arrive, in per cent, such as "loss=5,duplicate=1,reorder=2,corrupt=0.1".
  std::string faults;
};

/// How `Client::connect` connects, and how the client works. Copied by connect(); the program may change or destroy it
/// afterwards. Negative durations count as 0.
struct ClientOptions {
  /// Locators of the cluster's coordinator: "tcp://host:port", "verbs://host:port", "dpdk://address@number" or
  /// "shm:///path". At least one. Name several if the coordinator can be reached in several ways, or if there are
  /// several coordinators. The first one that answers as a coordinator is used. When it is away or is not in charge,
  /// another one is used. See "Where the coordinator is" in docs/operating/addresses.md.
  std::vector<std::string> coordinators;
  std::string cluster_name = "ramcore";  ///< 1 to 128 bytes; the same as the coordinator's
  /// Path of the file with the cluster's secret: 16 to 4096 bytes, not counting white space at the end of the file. The
  /// file belongs to the user of this process or to root, and no other user may read, write or replace it. A file of
  /// root may be readable by a group, unless this process runs as root. Empty: no secret, and only processes of this
  /// machine can be reached.
  std::string secret_file;
  /// How long a call may take, retries included, if its CallOptions name no timeout.
  std::chrono::nanoseconds default_timeout = std::chrono::seconds(5);
  /// How long connect() waits until a coordinator answers. A coordinator that still waits for its servers answers, too.
  /// connect() fails at once where waiting cannot help: the host is unknown, the handshake is refused, or another kind
  /// of Ramcore process listens there.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
  /// How long a waiting thread spins before it sleeps; a thread whose waits are mostly longer does not spin. A longer
  /// time lowers the latency of slow answers and costs more CPU. 0: the thread sleeps at once.
  std::chrono::nanoseconds spin_time = std::chrono::microseconds(250);
  /// true: the client starts a thread that polls. Calls that no thread waits for go on, and the client's lease is
  /// renewed, while the program does other things. This costs latency, because every call is handed to that thread.
  bool background_thread = false;
  /// true: the client asks for the rights that moving and splitting tablets need. No function of Client needs them.
  bool administrator = false;
  /// RDMA device to use, "mlx5_0", "mlx5_0:PORT" or "mlx5_0:PORT:GID"; connect() fails if it cannot be used. Empty: the
  /// first active one, if there is any. Servers are reached over the best transport that both sides have: shm, then
  /// verbs, dpdk, tcp. See docs/rdma.md.
  std::string rdma_device;
  /// RoCE: the traffic class of what is sent, 0 to 255: four times the DSCP that switches look at.
  uint8_t rdma_traffic_class = 0;
  /// Service level of what is sent, 0 to 15: the virtual lane of InfiniBand, the priority of RoCE in a VLAN.
  uint8_t rdma_service_level = 0;
  DpdkOptions dpdk;
  /// The client prints one line per event of this level or above on stderr: "debug", "info", "warning" or "error".
  /// "off": it prints nothing. All clients of a process that print share one level: that of the one connected last.
  std::string log_level = "off";
};

namespace detail {

/// The ClientOptions as they cross the border of the library: without containers. Borrows from them.
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

/// Settings of one enumeration.
struct ScanOptions {
  /// How long the request of each batch may take, retries included; none: ClientOptions::default_timeout.
  std::optional<std::chrono::nanoseconds> timeout;
  /// How long an answer of a server is to be, in bytes; more than 4 MiB count as 4 MiB. An answer ends at the latest
  /// with the objects of the key hash by which it reaches this length; it may end earlier. A smaller number means more
  /// messages, a larger one more memory for the batch that the Scan holds.
  uint32_t batch_bytes = 128 * 1024;
};

/// An enumeration of the objects of a table. The order of the objects means nothing.
///
/// An object that is there from beginning to end is given exactly once. An object that is created, replaced or removed
/// meanwhile is given at most once, with one of the values that it had. Tablets may move and split meanwhile. The
/// enumeration is not a snapshot: two objects may be from different moments. See "Enumeration" in docs/client.md.
///
///     Scan scan = client.scan(table);
///     for (const Object& object : scan) use(object);
///     if (scan.status() != Status::Ok) ...  // the enumeration ended early
///
/// Move-only; a Scan that was moved from may only be assigned to or destroyed. It must not outlive its client; moving
/// the client does not matter. It holds one batch of objects in memory. One thread at a time may use it.
class Scan {
 public:
  struct State;
  /// For `Client::scan`.
  explicit Scan(std::unique_ptr<State> state);
  Scan(Scan&&) noexcept;
  Scan& operator=(Scan&&) noexcept;
  ~Scan();

  /// Gives the next object. Blocks while it fetches the next batch, which is mostly one request and one answer.
  /// @return the object, which stays valid until the next call of next() or the end of the Scan. nullptr: the
  ///         enumeration is complete or has failed; status() says which. After a failure another call tries to go on
  ///         from there. After the end every further call gives nullptr.
  const Object* next();
  /// Says how the last call of next() went; Ok before the first one. Does not block.
  /// @return Ok: there was an object, or the enumeration is complete. Otherwise the enumeration ended early. The table
  ///         in the class comment of Client says what the status means. Corrupt: an object of the range is lost, or an
  ///         answer made no sense.
  Status status() const;

  /// A single-pass input iterator; `++` calls Scan::next(). It must not outlive the Scan.
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
  /// Takes the next object, so a second begin() goes on and does not start again.
  Iterator begin() { return Iterator(*this); }
  /// Equal to an iterator behind the last object, also after a failure: check status() behind the loop.
  Iterator end() { return {}; }

 private:
  std::unique_ptr<State> state_;
};

/// A connection to one Ramcore cluster: its tables and their objects. docs/client.md describes the library as a whole.
///
/// Threads: any number of threads may call one client at the same time; they share its sessions. Only moving,
/// assigning and destroying it demand that no other thread uses it. The client has no thread of its own unless
/// ClientOptions::background_thread asks for one: the thread that waits for a call polls for itself and for the others.
/// The API calls no function of the program. connect(), the functions for tables, those for one object and those for
/// several objects block until the result is there or the timeout of the call is over. scan(), poll() and the functions
/// that give a Future do not wait for an answer.
///
/// Arguments: keys have 1 to kKeyBytesLimit bytes and values 0 to kValueBytesLimit. An empty key gives BadRequest and a
/// longer key or value TooLarge, without a message. Names, keys, values, buffers and items are borrowed until the call
/// returns. Calls that give a Future have rules of their own (below).
///
/// Repeated attempts: the library repeats what can be repeated (a tablet that moved, a busy server, a lost session)
/// until the timeout is over. A mutation has the same number in all its attempts, so that it is carried out only once.
/// See "Exactly once" in docs/client.md.
///
/// Cost: a call on one object is one request to the owner of the key and one answer, once the client knows where the
/// tablet is, has a session to its owner and, for a mutation, has a lease. Otherwise it first asks the coordinator for
/// the tablets of the table and for the lease, with one request each, and opens the session. One lease serves all
/// mutations of the client; it is renewed while some thread polls.
///
/// Consistency: calls on one object are linearizable as long as clocks advance as docs/durability.md demands. An answer
/// waits until what it shows is as durable as the table promises (ramcore/durability.h).
///
/// Every call may end with these statuses, besides those that its own comment names:
///   NoSuchTable       the table was dropped, or the Table names none
///   DeadlineExceeded  no answer in time. Also: the owner of the tablet is dead and the tablet is not recovered yet
///   Unreachable       no connection to the owner of the key or to the coordinator
///   Refused           cluster name, secret or version differ from the cluster's, or the process that was named as its
///                     coordinator is none. Of one key, until the deadline: a process that is not its owner listens
///                     where the coordinator says that the owner does
///   WrongCluster      the coordinator that answers is of another cluster than the one before
///   StateBehind       the coordinator runs on an older copy of its state and serves no requests
///   LimitReached      there are as many tables, tablets or clients as a cluster may have
///   TooFewReplicas    of writes: too few servers kept replicas, until the deadline
///   Corrupt           the object's bytes are lost (docs/integrity.md), or an answer to the library made no sense
///   NoSpace           of writes: the owner of the key had no memory until the deadline; reads and removes go on
///   CoordinatorFull   the disk of the coordinator's storage is full. A table that was being created or dropped may be
///                     there, or gone, once there is room
///   Shutdown          the client is being destroyed
///   Forked            this process was forked after the client was made: make another client here. The call has sent
///                     nothing; a call that was begun before the fork goes on in the other process
///   OutcomeUnknown    of a change: it was sent, and no answer that tells its outcome came in time. It may have
///                     happened, or may still happen
/// A change is a mutation, or the creation or drop of a table. With every status but Ok and OutcomeUnknown a change has
/// not happened and will not happen; only for a table CoordinatorFull leaves that open. After OutcomeUnknown the
/// program has to decide: read and compare, or repeat with a condition. The program may repeat a call later after
/// DeadlineExceeded, Unreachable, NoSpace, TooFewReplicas, CoordinatorFull and StateBehind: their causes can pass.
class Client {
 public:
  /// Connects to a cluster: opens a session to a coordinator and waits until it answers. Waits for at most
  /// ClientOptions::connect_timeout, and fails at once where waiting cannot help.
  /// @return the client, or a Failure whose message names cause and remedy in one line. Its status:
  ///   BadConfig         an option is malformed or out of range, or this process has no transport for a locator
  ///   IoError           the secret file cannot be read, or the system refuses a device that was named
  ///   NoSpace           there is no memory for a device that was named, or no thread can be started
  ///   Unreachable       no coordinator answers, or its host has no address
  ///   DeadlineExceeded  a coordinator is reached and does not serve yet: it reads its state, or is not in charge
  ///   Refused           cluster name, secret or version differ, or another kind of process listens there
  ///   StateBehind       the coordinator runs on an older copy of its state and serves no requests
  ///   any other         what the coordinator answered
  static Outcome<Client> connect(const ClientOptions& options) { return connect(detail::PlainClientOptions(options)); }
  /// Takes another client over. Its futures and scans stay valid and belong to the new client. A client that was moved
  /// from may only be assigned to or destroyed.
  Client(Client&&) noexcept;
  /// Takes another client over, and ends the present one as its destructor would.
  Client& operator=(Client&&) noexcept;
  /// Ends the client. No call may be running in another thread, and no Future or Scan of this client may be left; a
  /// Future that is left ends the process.
  ///
  /// Blocks while it gives the client's lease back, for some 200 ms at most. Calls whose futures were dropped end;
  /// their mutations may have happened or not. In a forked process it leaves the client of the other process alone: it
  /// closes no session and sends nothing.
  ~Client();

  // ---- tables

  /// Creates a table of Durability::Buffered, and returns when all its tablets are served.
  /// @param name          1 to 255 bytes of UTF-8 without control characters
  /// @param tablet_count  into how many tablets the key space is cut, at most 1,024; they are spread over the servers.
  ///                      0: one per server
  /// @param options       the timeout; its condition is ignored, as for all functions for tables
  /// @return the table. TableExists: a table of this name exists, whatever its durability and tablets; openTable()
  ///         gives it, and listTables() says which durability it has. BadRequest: `name` or `tablet_count` is not
  ///         allowed. LimitReached: the cluster would have more than 4,096 tables or 65,536 tablets. DeadlineExceeded:
  ///         also if the cluster has no server yet. OutcomeUnknown: the table may be there, or may still come;
  ///         openTable() says whether it is there.
  Result<Table> createTable(std::string_view name, uint32_t tablet_count = 0, const CallOptions& options = {});
  /// Does the same for a table of any durability. ramcore/durability.h says what each level survives and costs.
  /// @param table  tablet count and durability; the table keeps the durability for good
  /// @return as of the first overload
  Result<Table> createTable(std::string_view name, const TableOptions& table, const CallOptions& options = {});
  /// Drops a table with all its objects, and returns when no server answers for it any more. Costs two requests to the
  /// coordinator: the table is dropped by its id, so a repeated attempt never drops a table of the same name that was
  /// created meanwhile.
  /// @return Ok, or NoSuchTable: no table has this name. OutcomeUnknown: the table may be gone, or may still go.
  Status dropTable(std::string_view name, const CallOptions& options = {});
  /// Lists the tables of the cluster, without those that are being created or dropped. One request to the coordinator.
  /// @return name, id and durability of each
  Result<std::vector<TableInfo>> listTables(const CallOptions& options = {}) {
    std::vector<TableInfo> tables;
    const Status status = listTables(
        [](void* to, TableInfo& table) { static_cast<std::vector<TableInfo>*>(to)->push_back(std::move(table)); },
        &tables, options);
    if (status != Status::Ok) return status;
    return tables;
  }
  /// Looks a table up by its name. One request to the coordinator. The answer also says where the tablets are, so the
  /// first call on the table needs no further request for that. A table that is being created is waited for.
  /// @return the table, or NoSuchTable: no table has this name.
  Result<Table> openTable(std::string_view name, const CallOptions& options = {});

  // ---- one object

  /// Reads one object.
  /// @param key      1 to kKeyBytesLimit bytes
  /// @param options  the timeout; its condition is ignored
  /// @return the value, in a string of its own, and its version. NotFound: no object has this key. Other statuses:
  ///         those of every call (above).
  Result<ReadResult> read(Table table, std::string_view key, const CallOptions& options = {});
  /// Reads one object into a string of the caller, whose memory is used again.
  /// @param value  replaced by the value with Ok; otherwise unchanged
  /// @return the version; statuses as of the first overload
  Result<uint64_t> read(Table table, std::string_view key, std::string& value, const CallOptions& options = {});
  /// Reads one object into a buffer of the caller. The whole value is transferred, also if the buffer is smaller.
  /// @param buffer  gets the start of the value with Ok: as many bytes as the value has and the buffer holds. The rest
  ///                of the buffer is unchanged, and with another status all of it. An empty buffer is allowed
  /// @return the size of the whole value and its version; statuses as of the first overload
  Result<ReadSize> read(Table table, std::string_view key, std::span<std::byte> buffer,
                        const CallOptions& options = {});
  /// Creates an object or replaces its value, if the condition holds.
  /// @param value    0 to kValueBytesLimit bytes
  /// @param options  the timeout, and the condition (none: the object is written in any case)
  /// @return Ok and the new version, which is higher than all versions that this key had. NotFound, ObjectExists,
  ///         WrongVersion: the condition failed, and the result has the present version. TooLarge: also if the segments
  ///         of the server are too small for the object, or if the server's index cannot tell the key's hash from those
  ///         of 7 other keys of the table (docs/formats.md).
  MutateResult write(Table table, std::string_view key, std::string_view value, const CallOptions& options = {});
  /// Removes one object, if the condition holds.
  /// @param options  the timeout, and the condition
  /// @return Ok and the version of the removed object. Ok and 0: there was no such object, and no condition asked for
  ///         one. NotFound, ObjectExists, WrongVersion: the condition failed, and the result has the present version.
  MutateResult remove(Table table, std::string_view key, const CallOptions& options = {});
  /// Adds to a counter: a value of 8 bytes, a little-endian integer. An object that is not there counts as 0 and is
  /// created. The sum wraps around.
  /// @param delta    what is added; 0 gives the present number, and writes it again
  /// @param options  the timeout, and the condition
  /// @return Ok, the new version, and the sum in `value`. TypeMismatch: the value has another size. NotFound,
  ///         ObjectExists, WrongVersion: the condition failed, and the result has the present version.
  MutateResult increment(Table table, std::string_view key, int64_t delta, const CallOptions& options = {});

  // ---- several objects at once

  /// Reads several objects. Not atomic: each item is a read of its own, and items may be from different moments. All
  /// owners are asked at the same time; one request carries up to 4,096 items and some 72 KiB. The call returns when
  /// every item has its outcome.
  /// @param items    any number, of any tables. Gets status, version and value of each item; version and value mean
  ///                 something only with Ok
  /// @param options  the timeout, for all items together; its condition is ignored
  /// @return the number of items whose status is not Ok. The status of an item is one of those of read().
  size_t multiRead(std::span<ReadItem> items, const CallOptions& options = {});
  /// Writes and removes several objects. Not atomic: each item is a mutation of its own. Some may succeed and others
  /// fail, and another client may see any of them first. Items with equal keys take effect in any order. Items are sent
  /// as in multiRead(), but at most 1,024 at once: later ones follow when these have their outcomes.
  /// @param items    any number, of any tables. Gets status and version of each item
  /// @param options  the timeout, for all items together; its condition is ignored: each item has its own
  /// @return the number of items whose status is not Ok. The status of an item is one of those of write() or remove().
  size_t multiMutate(std::span<MutateItem> items, const CallOptions& options = {});

  // ---- enumeration

  /// Begins an enumeration of a table. Sends nothing: Scan::next() does.
  /// @param table  a table that does not exist gives NoSuchTable at the first next()
  Scan scan(Table table, const ScanOptions& options = {});

  // ---- futures
  //
  // Each function starts the call of the same name and returns at once. The future gives what that call would return,
  // with the same statuses. In a forked process the future is ready at once, and the status is Forked.
  //
  // The call goes on while any thread polls (ramcore/future.h). The first of several requests leaves at once; those
  // that are started while it runs leave together with the next poll.
  //
  // Keys and values are copied, but not those of multi-operations.

  /// Starts read(). The key is copied.
  Future<Result<ReadResult>> readAsync(Table table, std::string_view key, const CallOptions& options = {});
  /// Starts write(). Key and value are copied.
  Future<MutateResult> writeAsync(Table table, std::string_view key, std::string_view value,
                                  const CallOptions& options = {});
  /// Starts remove(). The key is copied.
  Future<MutateResult> removeAsync(Table table, std::string_view key, const CallOptions& options = {});
  /// Starts increment(). The key is copied.
  Future<MutateResult> incrementAsync(Table table, std::string_view key, int64_t delta,
                                      const CallOptions& options = {});
  /// Starts multiRead(). The result is the number of items whose status is not Ok.
  /// @param items  borrowed, with the bytes of their keys, until the result is there (of a dropped future: as long as
  ///               the client). Read and write nothing in them before
  Future<size_t> multiReadAsync(std::span<ReadItem> items, const CallOptions& options = {});
  /// Starts multiMutate(). The result is the number of items whose status is not Ok.
  /// @param items  borrowed, with the bytes of their keys and values, until the result is there (of a dropped future:
  ///               as long as the client). Read and write nothing in them before
  Future<size_t> multiMutateAsync(std::span<MutateItem> items, const CallOptions& options = {});

  /// Makes progress with all calls of this client that are running, ends those whose timeout is over, and renews the
  /// lease when it is time. Does not wait. A program without a background thread that keeps futures for long, or pauses
  /// between mutations, calls it now and then.
  /// @return true if there was anything to do. false also if another thread polls, and in a forked process.
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
