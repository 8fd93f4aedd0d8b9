#include "runtime/pins.h"

#include "runtime/epoch.h"
#include "runtime/real/urcu_epoch.h"

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ramcore::runtime {
namespace {

TEST(PinRegistry, TokenTravelsAsAnInteger) {
  PinToken token;
  token.epoch = 0x123456789abc;
  token.slot = 0xdef0;
  const PinToken copy = PinToken::fromU64(token.toU64());
  EXPECT_EQ(copy.epoch, token.epoch);
  EXPECT_EQ(copy.slot, token.slot);
  EXPECT_FALSE(PinToken::fromU64(0));
}

TEST(PinRegistry, EpochQuiescesWhenItsLastPinIsBack) {
  PinRegistry pins(2);
  Pin first = pins.take(0);
  Pin second = pins.take(1);
  const uint64_t epoch = pins.advance(100).value();
  const Pin later = pins.take(0);
  EXPECT_FALSE(pins.quiesced(epoch));
  first.reset();
  EXPECT_FALSE(pins.quiesced(epoch));
  second.reset();
  EXPECT_TRUE(pins.quiesced(epoch));
  EXPECT_FALSE(pins.quiesced(pins.epoch()));
  EXPECT_EQ(pins.outstanding(), 1u);
}

TEST(PinRegistry, LaterEpochWaitsForPinsOfEarlierOnes) {
  PinRegistry pins(1);
  Pin old = pins.take(0);
  pins.advance(0).value();
  const uint64_t epoch = pins.advance(0).value();
  EXPECT_FALSE(pins.quiesced(epoch));
  old.reset();
  EXPECT_TRUE(pins.quiesced(epoch));
}

TEST(PinRegistry, WindowDoesNotOverrunAnOldPin) {
  PinRegistry pins(1);
  Pin old = pins.take(0);
  uint32_t advanced = 0;
  while (pins.advance(advanced) && advanced < 100) ++advanced;
  EXPECT_EQ(advanced, PinRegistry::kEpochsOpen - 1);
  old.reset();
  EXPECT_TRUE(pins.advance(0).has_value());
  for (uint32_t i = 0; i < 5 * PinRegistry::kEpochsOpen; ++i) {
    Pin pin = pins.take(0);
    const uint64_t epoch = pins.advance(0).value();
    EXPECT_FALSE(pins.quiesced(epoch));
    pin.reset();
    EXPECT_TRUE(pins.quiesced(epoch));
  }
}

TEST(PinRegistry, AgeIsThatOfTheOldestPin) {
  PinRegistry pins(1);
  EXPECT_EQ(pins.oldestAgeNs(1000), 0u);
  pins.advance(1000).value();
  const Pin pin = pins.take(0);
  pins.advance(3000).value();
  EXPECT_EQ(pins.oldestAgeNs(5000), 4000u);
}

TEST(PinRegistry, PinMovesAndDetaches) {
  PinRegistry pins(1);
  Pin pin = pins.take(0);
  Pin moved = std::move(pin);
  EXPECT_TRUE(static_cast<bool>(moved));
  EXPECT_EQ(pins.outstanding(), 1u);
  const PinToken token = moved.detach();
  moved.reset();
  EXPECT_EQ(pins.outstanding(), 1u);
  pins.release(PinToken::fromU64(token.toU64()));
  EXPECT_EQ(pins.outstanding(), 0u);
}

// Readers find a block, pin it, leave the read section and read it later, in the hands of another thread; the reclaimer
// unlinks blocks and scribbles over them in the documented order.
TEST(PinRegistry, StressNothingIsFreedUnderAPin) {
  constexpr uint32_t kReaders = 2;
  constexpr uint32_t kBlocks = 4;
  constexpr uint32_t kRecycled = 60;
  struct Block {
    uint64_t first = 0;
    uint64_t last = 0;
  };
  struct Held {
    const Block* block = nullptr;
    PinToken token;
  };
  const std::unique_ptr<Rcu> rcu = makeUrcu();
  PinRegistry pins(kReaders);
  std::array<Block, kBlocks> blocks;
  std::atomic<uint32_t> current{0};
  // One mailbox per reader: filled by the reader, emptied by the sender.
  std::array<std::array<std::atomic<uint64_t>, 8>, kReaders> tokens{};
  std::array<std::array<Held, 8>, kReaders> held{};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> torn{0};
  std::atomic<uint64_t> sent{0};

  std::vector<std::thread> threads;
  for (uint32_t reader = 0; reader < kReaders; ++reader) {
    threads.emplace_back([&, reader] {
      const RcuReader self = rcu->registerThread();
      for (uint32_t i = 0; !stop.load(std::memory_order_relaxed); i = (i + 1) % 8) {
        if (tokens[reader][i].load(std::memory_order_acquire) == 0) {
          held[reader][i].block = &blocks[current.load(std::memory_order_acquire)];
          tokens[reader][i].store(pins.takeToken(reader).toU64(), std::memory_order_release);
        }
        rcu->quiescent(self);
      }
      rcu->unregisterThread(self);
    });
  }
  threads.emplace_back([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      for (uint32_t reader = 0; reader < kReaders; ++reader) {
        for (uint32_t i = 0; i < 8; ++i) {
          const uint64_t raw = tokens[reader][i].load(std::memory_order_acquire);
          if (raw == 0) continue;
          const Block* block = held[reader][i].block;
          if (block->first != block->last) torn.fetch_add(1);
          pins.release(PinToken::fromU64(raw));
          tokens[reader][i].store(0, std::memory_order_release);
          sent.fetch_add(1, std::memory_order_relaxed);
        }
      }
    }
  });

  while (sent.load() == 0) std::this_thread::yield();
  for (uint32_t round = 1; round <= kRecycled; ++round) {
    const uint32_t next = round % kBlocks;
    const uint32_t unlinked = current.exchange(next, std::memory_order_acq_rel);
    const GraceTicket ticket = rcu->ticket();
    while (!rcu->elapsed(ticket)) rcu->reclaim(1);
    std::optional<uint64_t> epoch;
    while (!(epoch = pins.advance(round))) std::this_thread::yield();
    while (!pins.quiesced(*epoch)) std::this_thread::yield();
    blocks[unlinked].first = round;
    blocks[unlinked].last = round;
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  for (auto& mailbox : tokens) {
    for (auto& token : mailbox) {
      if (token.load() != 0) pins.release(PinToken::fromU64(token.load()));
    }
  }
  EXPECT_EQ(torn.load(), 0u);
  EXPECT_GT(sent.load(), 0u);
}

}  // namespace
}  // namespace ramcore::runtime
