#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ramcore::steps {

/// The work of one thread.
struct Party {
  std::function<void()> work;
  /// Others may come before each of its reads, too. Not wanted of one that reads under a lock only what is written
  /// under that lock.
  bool is_reader = false;
};

/// Goes through the orders in which threads may meet: all with at most so many preemptions (a thread is stopped that
/// could go on). Threads change only at the marks of base/step.h, where a lock is not to be had, and at their ends, and
/// one runs at a time, so what memory shows is what was written last (sequential consistency).
///
///   Interleavings orders(3);
///   while (orders.next()) { ...make what they share...; orders.run(parties); ...judge... }
class Interleavings {
 public:
  explicit Interleavings(uint32_t preemptions_max);
  ~Interleavings();
  Interleavings(const Interleavings&) = delete;
  Interleavings& operator=(const Interleavings&) = delete;

  /// @return false when all orders were run
  bool next();
  /// Runs the parties in the present order; they have to do the same whenever they meet in the same order. Aborts if
  /// all that are left wait for locks.
  void run(std::span<const Party> parties);
  uint64_t count() const { return count_; }

  void stepReached(bool is_read);
  void lockMissed();
  void lockGivenBack();

 private:
  struct Thread;
  struct Decision {
    uint32_t chosen = 0;
    uint32_t options = 0;
  };

  void serve(Thread& self);
  uint32_t choose(size_t options);
  void goOn(Thread* self, std::vector<Thread*> with);
  std::vector<Thread*> readyBut(const Thread* self) const;

  const uint32_t preemptions_max_;
  std::vector<std::unique_ptr<Thread>> threads_;
  size_t running_ = 0;  // parties of this run
  std::vector<Decision> path_;
  size_t depth_ = 0;
  uint32_t preemptions_ = 0;
  uint64_t count_ = 0;
  struct Signal;
  std::unique_ptr<Signal> over_;
};

}  // namespace ramcore::steps
