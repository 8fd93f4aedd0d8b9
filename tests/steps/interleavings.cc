#include "steps/interleavings.h"

#include <semaphore>
#include <thread>

#include "base/check.h"
#include "base/step.h"

namespace ramcore::steps {

enum class State : uint8_t { Idle, Ready, Blocked, Done };

struct Interleavings::Thread {
  const Party* party = nullptr;
  State state = State::Idle;
  bool is_over = false;
  std::binary_semaphore turn{0};
  std::thread thread;
};

struct Interleavings::Signal {
  std::binary_semaphore semaphore{0};
};

namespace {
thread_local Interleavings* orders_of_this_thread = nullptr;
thread_local void* self_of_this_thread = nullptr;
}  // namespace

Interleavings::Interleavings(uint32_t preemptions_max)
    : preemptions_max_(preemptions_max), over_(std::make_unique<Signal>()) {}

Interleavings::~Interleavings() {
  for (const auto& thread : threads_) {
    thread->is_over = true;
    thread->turn.release();
    thread->thread.join();
  }
}

bool Interleavings::next() {
  if (count_++ == 0) return true;
  while (!path_.empty() && path_.back().chosen + 1 == path_.back().options) path_.pop_back();
  if (path_.empty()) {
    --count_;
    return false;
  }
  ++path_.back().chosen;
  return true;
}

void Interleavings::run(std::span<const Party> parties) {
  while (threads_.size() < parties.size()) {
    Thread& added = *threads_.emplace_back(std::make_unique<Thread>());
    added.thread = std::thread([this, &added] { serve(added); });
  }
  running_ = parties.size();
  for (size_t i = 0; i < running_; ++i) {
    threads_[i]->party = &parties[i];
    threads_[i]->state = State::Ready;
  }
  depth_ = 0;
  preemptions_ = 0;
  goOn(nullptr, readyBut(nullptr));
  over_->semaphore.acquire();
}

void Interleavings::serve(Thread& self) {
  orders_of_this_thread = this;
  self_of_this_thread = &self;
  for (;;) {
    self.turn.acquire();
    if (self.is_over) return;
    self.party->work();
    self.state = State::Done;
    const std::vector<Thread*> others = readyBut(&self);
    if (!others.empty()) {
      goOn(nullptr, others);
      continue;
    }
    for (size_t i = 0; i < running_; ++i) {
      RC_CHECK_MSG(threads_[i]->state == State::Done, "all that are left wait for locks");
    }
    over_->semaphore.release();
  }
}

/// As before as far as the path goes, then the first of them.
uint32_t Interleavings::choose(size_t options) {
  if (options == 1) return 0;
  if (depth_ == path_.size()) path_.push_back({0, static_cast<uint32_t>(options)});
  const Decision& decision = path_[depth_++];
  RC_CHECK_MSG(decision.options == options, "the same order went another way");
  return decision.chosen;
}

std::vector<Interleavings::Thread*> Interleavings::readyBut(const Thread* self) const {
  std::vector<Thread*> ready;
  for (size_t i = 0; i < running_; ++i) {
    if (threads_[i].get() != self && threads_[i]->state == State::Ready) ready.push_back(threads_[i].get());
  }
  return ready;
}

/// @param self  waits until it is its turn again; nullptr: it does not
void Interleavings::goOn(Thread* self, std::vector<Thread*> with) {
  Thread* const chosen = with[choose(with.size())];
  if (chosen == self) return;
  chosen->turn.release();
  if (self != nullptr) self->turn.acquire();
}

void Interleavings::stepReached(bool is_read) {
  auto* const self = static_cast<Thread*>(self_of_this_thread);
  if ((is_read && !self->party->is_reader) || preemptions_ == preemptions_max_) return;
  std::vector<Thread*> options = readyBut(self);
  options.insert(options.begin(), self);
  const uint32_t before = preemptions_;
  const uint32_t chosen = choose(options.size());
  if (chosen == 0) return;
  preemptions_ = before + 1;
  options[chosen]->turn.release();
  self->turn.acquire();
}

void Interleavings::lockMissed() {
  auto* const self = static_cast<Thread*>(self_of_this_thread);
  self->state = State::Blocked;
  std::vector<Thread*> others = readyBut(self);
  RC_CHECK_MSG(!others.empty(), "all that are left wait for locks");
  goOn(self, std::move(others));
}

void Interleavings::lockGivenBack() {
  for (size_t i = 0; i < running_; ++i) {
    if (threads_[i]->state == State::Blocked) threads_[i]->state = State::Ready;
  }
}

}  // namespace ramcore::steps

// Of what is compiled with marks. Threads of the test itself have none.
namespace ramcore {
void stepReached() {
  if (steps::orders_of_this_thread != nullptr) steps::orders_of_this_thread->stepReached(false);
}
void readStepReached() {
  if (steps::orders_of_this_thread != nullptr) steps::orders_of_this_thread->stepReached(true);
}
void lockMissed() {
  RC_CHECK_MSG(steps::orders_of_this_thread != nullptr, "a lock was left taken");
  steps::orders_of_this_thread->lockMissed();
}
void lockGivenBack() {
  if (steps::orders_of_this_thread != nullptr) steps::orders_of_this_thread->lockGivenBack();
}
}  // namespace ramcore
