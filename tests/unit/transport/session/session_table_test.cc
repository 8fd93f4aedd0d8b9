#include "transport/session/session_table.h"

#include <gtest/gtest.h>

namespace ramcore::transport {
namespace {

struct TableSession {
  enum class State { Greeting, Open };
  SessionId id;
  State state = State::Greeting;
};
using Table = SessionTable<std::unique_ptr<TableSession>>;

TableSession& addTo(Table& table) {
  return *table.add([](SessionId id) { return std::make_unique<TableSession>(TableSession{.id = id}); });
}

TEST(SessionTable, FindsEachByItsId) {
  Table table;
  TableSession& first = addTo(table);
  TableSession& second = addTo(table);
  EXPECT_EQ(first.id, (SessionId{.index = 0, .generation = 1}));
  EXPECT_EQ(second.id, (SessionId{.index = 1, .generation = 1}));
  EXPECT_EQ(table.find(first.id), &first);
  EXPECT_EQ(table.find(second.id), &second);
  EXPECT_EQ(table.pointerTo(second.id).get(), &second);
  EXPECT_EQ(table.atIndex(1), &second);
  EXPECT_EQ(table.count(), 2u);
}

TEST(SessionTable, FindsNothingElse) {
  Table table;
  const SessionId id = addTo(table).id;
  EXPECT_EQ(table.find({}), nullptr);
  EXPECT_EQ(table.find({.index = id.index, .generation = id.generation + 1}), nullptr);
  EXPECT_EQ(table.find({.index = 1, .generation = 1}), nullptr);
  EXPECT_EQ(table.find({.index = UINT32_MAX, .generation = 1}), nullptr);
  EXPECT_EQ(table.atIndex(UINT64_MAX), nullptr);
  EXPECT_EQ(table.findOpen(id), nullptr) << "it is in its handshake";
  table.find(id)->state = TableSession::State::Open;
  EXPECT_NE(table.findOpen(id), nullptr);
}

TEST(SessionTable, AnIdThatHasEndedFindsNothingInAPlaceThatIsUsedAgain) {
  Table table;
  const SessionId first = addTo(table).id;
  const SessionId kept = addTo(table).id;
  EXPECT_EQ(table.remove(first)->id, first);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(table.count(), 1u);
  const SessionId again = addTo(table).id;
  EXPECT_EQ(again, (SessionId{.index = 0, .generation = 2}));
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_NE(table.find(kept), nullptr);
  table.clear();
  EXPECT_EQ(table.find(kept), nullptr);
  EXPECT_EQ(table.count(), 0u);
}

TEST(SessionTable, SessionsMayComeAndGoWhileAllAreVisited) {
  Table table;
  for (int i = 0; i < 3; ++i) addTo(table);
  std::vector<uint32_t> visited;
  table.forEach([&](TableSession& session) {
    visited.push_back(session.id.index);
    if (session.id.index == 0) table.remove({.index = 1, .generation = 1});
    if (session.id.index == 2) addTo(table), addTo(table);
  });
  EXPECT_EQ(visited, (std::vector<uint32_t>{0, 2, 3})) << "the place of 1 was behind, and free";
  EXPECT_EQ(table.count(), 4u);
}

TEST(SessionTableDeathTest, RemovingWhatHasEndedIsChecked) {
  Table table;
  const SessionId id = addTo(table).id;
  table.remove(id);
  EXPECT_DEATH(table.remove(id), "find");
}

}  // namespace
}  // namespace ramcore::transport
