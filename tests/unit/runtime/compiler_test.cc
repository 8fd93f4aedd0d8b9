// Coroutine shapes that a compiler may get wrong without a word: g++ 12 destroys temporaries of an awaiting expression
// twice. The file is a gtest file, and also a program of its own that CMake runs at configure time (with
// RAMCORE_CONFIGURE_CHECK) so that a compiler that fails is refused. It therefore uses nothing but the standard
// library.

#ifndef RAMCORE_CONFIGURE_CHECK
#include <gtest/gtest.h>
#endif

#include <array>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <string>
#include <utility>

namespace ramcore::compiler_check {
namespace {

// Counts living instances: a temporary that is destroyed twice leaves the count below zero.
struct Counted {
  explicit Counted(int* alive, int value = 1) : alive(alive), value(value) { ++*alive; }
  Counted(const Counted& other) : alive(other.alive), value(other.value) { ++*alive; }
  Counted(Counted&& other) noexcept : alive(other.alive), value(other.value) { ++*alive; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*alive; }

  int* alive;
  int value;
};

struct Aggregate {
  Counted first;
  int second = 0;
};

// The smallest lazy task with symmetric transfer. Counts its handles in *alive, as Counted does.
template <typename T>
class MiniTask {
 public:
  struct promise_type {
    MiniTask get_return_object() { return MiniTask(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().continuation;
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_value(T v) { value = std::move(v); }
    void unhandled_exception() { std::terminate(); }

    std::coroutine_handle<> continuation = std::noop_coroutine();
    T value{};
  };

  explicit MiniTask(std::coroutine_handle<promise_type> handle) : handle_(handle) { ++live(); }
  MiniTask(MiniTask&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) { ++live(); }
  MiniTask& operator=(MiniTask&&) = delete;
  ~MiniTask() {
    --live();
    if (handle_ && live() >= 0) handle_.destroy();
    handle_ = nullptr;
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> continuation) noexcept {
    handle_.promise().continuation = continuation;
    return handle_;
  }
  T await_resume() { return std::move(handle_.promise().value); }

  T run() {
    handle_.resume();
    return std::move(handle_.promise().value);
  }

  // Living task objects of this type; back at zero after every shape, and never below.
  static int& live() {
    static int count = 0;
    return count;
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

// An awaitable that counts its own temporaries and suspends nothing.
struct CountedAwaitable {
  Counted counted;
  bool result;
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  bool await_resume() const noexcept { return result; }
};

CountedAwaitable awaitable(int* alive, bool result) { return CountedAwaitable{Counted(alive), result}; }

MiniTask<int> take(Aggregate a) { co_return a.first.value + a.second; }
MiniTask<int> number(int n) { co_return n; }
MiniTask<std::string> text(int n) { co_return std::string(40, 'x') + std::to_string(n); }

struct Shape {
  const char* name;
  bool (*passes)();
};

// A prvalue aggregate with a non-trivial member beside an await.
MiniTask<int> aggregateArgument(int* alive) {
  int got = co_await take(Aggregate{.first = Counted(alive, 4), .second = 3});
  co_return got;
}
MiniTask<int> bracedArgument(int* alive) { co_return co_await take({.first = Counted(alive, 4), .second = 3}); }

struct Names {
  std::string a;
  std::string b;
};
MiniTask<int> aggregateFromAwait() {
  Names names{.a = co_await text(1), .b = co_await text(2)};
  co_return static_cast<int>(names.a.size() + names.b.size());
}

// An awaited temporary in a condition whose branch is a bare co_return.
MiniTask<int> ifCondition(int* alive) {
  if (co_await awaitable(alive, true)) co_return 7;
  co_return 1;
}
MiniTask<int> ifConditionTask() {
  if (co_await number(1)) co_return 7;
  co_return 1;
}
MiniTask<int> andCondition(int* alive) {
  if (co_await awaitable(alive, true) && co_await awaitable(alive, true)) co_return 7;
  co_return 1;
}
MiniTask<int> andConditionTask() {
  if (co_await number(1) && co_await number(2)) co_return 7;
  co_return 1;
}
MiniTask<int> whileCondition(int* alive) {
  while (co_await awaitable(alive, true)) co_return 7;
  co_return 1;
}
MiniTask<int> switchCondition(int* alive) {
  switch (co_await awaitable(alive, true)) {
    case true:
      co_return 7;
    default:
      co_return 1;
  }
}
MiniTask<int> conditionalOperator(int* alive) {
  co_return co_await awaitable(alive, true) ? co_await number(7) : co_await number(1);
}

#ifndef RAMCORE_CHECK_WITHOUT_INITIALIZER_LIST
int sum(std::initializer_list<int> values) {
  int total = 0;
  for (int v : values) total += v;
  return total;
}
MiniTask<int> initializerList() { co_return sum({co_await number(3), co_await number(4)}); }
#endif

// A long chain of finished tasks must not grow the stack: symmetric transfer has to be a tail call.
MiniTask<int> manyAwaits() {
  int total = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    int one = co_await number(1);
    total += one;
  }
  co_return total == 1'000'000 ? 7 : 1;
}

template <MiniTask<int> (*kShape)(int*)>
bool countsStayBalanced() {
  int alive = 0;
  {
    auto task = kShape(&alive);
    if (task.run() != 7) return false;
    if (alive != 0) return false;
  }
  return alive == 0 && MiniTask<int>::live() == 0;
}

template <MiniTask<int> (*kShape)(), int kExpected = 7>
bool tasksStayBalanced() {
  {
    auto task = kShape();
    if (task.run() != kExpected) return false;
  }
  return MiniTask<int>::live() == 0 && MiniTask<std::string>::live() == 0;
}

constexpr auto kShapes = std::to_array<Shape>({
    {"aggregate argument of an awaited call", countsStayBalanced<aggregateArgument>},
    {"braced argument of an awaited call", countsStayBalanced<bracedArgument>},
    {"aggregate initialised from awaits", tasksStayBalanced<aggregateFromAwait, 82>},
    {"awaited temporary in an if condition", countsStayBalanced<ifCondition>},
    {"awaited task in an if condition", tasksStayBalanced<ifConditionTask>},
    {"awaited temporaries behind &&", countsStayBalanced<andCondition>},
    {"awaited tasks behind &&", tasksStayBalanced<andConditionTask>},
    {"awaited temporary in a while condition", countsStayBalanced<whileCondition>},
    {"awaited temporary in a switch condition", countsStayBalanced<switchCondition>},
    {"await in the conditional operator", countsStayBalanced<conditionalOperator>},
#ifndef RAMCORE_CHECK_WITHOUT_INITIALIZER_LIST
    {"await in an initialiser list", tasksStayBalanced<initializerList>},
#endif
    {"a million awaits of finished tasks", tasksStayBalanced<manyAwaits>},
});

}  // namespace
}  // namespace ramcore::compiler_check

#ifdef RAMCORE_CONFIGURE_CHECK
int main() {
  int failed = 0;
  for (const auto& shape : ramcore::compiler_check::kShapes) {
    ramcore::compiler_check::MiniTask<int>::live() = 0;
    ramcore::compiler_check::MiniTask<std::string>::live() = 0;
    if (!shape.passes()) {
      std::printf("coroutine shape fails: %s\n", shape.name);
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}
#else
class CompilerTest : public testing::TestWithParam<ramcore::compiler_check::Shape> {};

TEST_P(CompilerTest, HandlesShape) { EXPECT_TRUE(GetParam().passes()) << GetParam().name; }

INSTANTIATE_TEST_SUITE_P(Coroutines, CompilerTest, testing::ValuesIn(ramcore::compiler_check::kShapes));
#endif
