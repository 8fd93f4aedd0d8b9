// Which servers' storages are in use again, judged by the names that were found there.
#include "coordinator/survey/storage_lineage.h"

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace ramcore::coordinator {
namespace {

/// Servers 1 to n: the n-th entry is the name that server n found; 0: its storage was new.
class Lineage {
 public:
  explicit Lineage(std::vector<uint64_t> formers) {
    for (uint64_t id = 1; id <= formers.size(); ++id) {
      Server& server = records_.emplace_back();
      server.id = ServerId(id);
      server.former = ServerId(formers[id - 1]);
    }
  }
  /// From now on their storage tells this name.
  Lineage& nameStorage(uint64_t name, const std::set<uint64_t>& servers) {
    for (const uint64_t id : servers) records_[id - 1].storage = name;
    return *this;
  }
  /// As if the record had been dropped.
  void forget(uint64_t id) { forgotten_.insert(id); }

  bool isSuperseded(uint64_t id, const std::set<uint64_t>& answering) const {
    std::vector<const Server*> known;
    for (const Server& server : records_) {
      if (!forgotten_.contains(server.id.value)) known.push_back(&server);
    }
    return StorageLineage(known).isSuperseded(records_[id - 1],
                                              [&](ServerId other) { return answering.contains(other.value); });
  }

 private:
  std::deque<Server> records_;
  std::set<uint64_t> forgotten_;
};

TEST(StorageLineage, NobodyElseHasTheStorage) {
  EXPECT_FALSE(Lineage({0, 0}).isSuperseded(1, {2}));
  const Lineage line({0, 1, 2});
  EXPECT_FALSE(line.isSuperseded(3, {1, 2})) << "former ones are before it";
}

TEST(StorageLineage, WhoDiedBeforeItsNameWasWrittenIsSupersededByTheNextOneThatAnswers) {
  const Lineage line({0, 1, 1});
  EXPECT_TRUE(line.isSuperseded(2, {3}));
  EXPECT_TRUE(line.isSuperseded(3, {2})) << "its enlistment may have been on its way for long";
  EXPECT_FALSE(line.isSuperseded(2, {})) << "3 may have died likewise";
  EXPECT_FALSE(line.isSuperseded(3, {}));
}

TEST(StorageLineage, WhoFoundANameProvesThatItWasWritten) {
  const Lineage line({0, 1, 1, 3});
  EXPECT_TRUE(line.isSuperseded(2, {}));
  EXPECT_FALSE(line.isSuperseded(4, {})) << "it is the last one";
}

// Server 4 had found 2 before 3 came, and its enlistment was on its way for long.
TEST(StorageLineage, ALateEnlistmentOfTheOneThatFoundANameProvesNothing) {
  EXPECT_FALSE(Lineage({0, 1, 1, 2}).isSuperseded(3, {})) << "2 was lost with the power before 3 came";
  EXPECT_TRUE(Lineage({0, 1, 1, 2}).isSuperseded(3, {4}));
  Lineage line = Lineage({0, 1, 2, 1}).nameStorage(77, {1, 2, 3, 4});
  line.forget(2);
  EXPECT_FALSE(line.isSuperseded(3, {})) << "4 found 1 before 2 came, and 3 has followed 2";
}

TEST(StorageLineage, AnOlderBranchProvesNothing) {
  // The disk lost that it had ever been 2 and 3.
  const Lineage line({0, 1, 2, 1});
  EXPECT_FALSE(line.isSuperseded(4, {})) << "3 found the storage before 4 came";
  EXPECT_FALSE(line.isSuperseded(3, {})) << "4 may have died before it used the storage";
}

TEST(StorageLineage, NamesOfSeveralProcessesMayBeLost) {
  EXPECT_TRUE(Lineage({0, 1, 2, 1}).isSuperseded(3, {4}));
  EXPECT_TRUE(Lineage({0, 1, 2, 1, 4}).isSuperseded(3, {})) << "5 found what 4 had left";
  EXPECT_TRUE(Lineage({0, 1, 2, 3, 1, 5, 6}).isSuperseded(4, {7}));
  EXPECT_FALSE(Lineage({0, 1, 2, 3, 1, 5, 6}).isSuperseded(7, {})) << "it is the last one";
}

TEST(StorageLineage, TheNameOfOneWhoseRecordIsGoneStillTells) {
  Lineage line({0, 1, 1});
  line.forget(1);
  EXPECT_TRUE(line.isSuperseded(2, {3}));
  Lineage cut({0, 1, 2, 1});
  cut.forget(2);
  EXPECT_FALSE(cut.isSuperseded(3, {4})) << "nobody knows whom 2 had followed";
}

TEST(StorageLineage, WhoFoundNobodyIsKnownByTheNameOfItsStorage) {
  const Lineage line = Lineage({0, 0, 0, 0}).nameStorage(77, {1, 3});
  EXPECT_TRUE(line.isSuperseded(1, {3}));
  EXPECT_TRUE(line.isSuperseded(3, {1})) << "its enlistment may have been on its way for long";
  EXPECT_FALSE(line.isSuperseded(1, {2, 4})) << "storages without a name are any";
  EXPECT_FALSE(line.isSuperseded(2, {1, 3, 4}));
  EXPECT_FALSE(line.isSuperseded(1, {})) << "3 may have died likewise";
  EXPECT_TRUE(Lineage({0, 0, 2}).nameStorage(77, {1, 2, 3}).isSuperseded(1, {})) << "3 found what 2 had left";
  EXPECT_TRUE(Lineage({0, 0, 2}).nameStorage(77, {1, 2}).isSuperseded(1, {3})) << "whatever 3 could tell of it";
  EXPECT_FALSE(Lineage({0, 0, 2}).nameStorage(77, {1, 2, 3}).isSuperseded(3, {})) << "it is the last one";
}

TEST(StorageLineage, StoragesOfOtherNamesAreOthers) {
  const Lineage lines = Lineage({0, 0, 0, 0}).nameStorage(77, {1, 3}).nameStorage(78, {2, 4});
  EXPECT_FALSE(lines.isSuperseded(1, {2, 4}));
  EXPECT_FALSE(lines.isSuperseded(2, {1, 3}));
  EXPECT_TRUE(lines.isSuperseded(2, {4}));
}

// The record of a server whose name was found is forgotten sooner than that of one whose name was not.
TEST(StorageLineage, TheNameOfTheStorageTellsWhereTheRecordBetweenIsGone) {
  Lineage line = Lineage({0, 0, 2}).nameStorage(77, {1, 2, 3});
  line.forget(2);
  EXPECT_TRUE(line.isSuperseded(1, {3}));
  EXPECT_FALSE(line.isSuperseded(3, {}));
  Lineage in_part = Lineage({0, 0, 2, 2}).nameStorage(77, {1, 2, 4});
  in_part.forget(2);
  EXPECT_TRUE(in_part.isSuperseded(3, {4})) << "they found the same name";
}

// The record of one whose name was not found outlives all records that tell whom it had followed.
TEST(StorageLineage, TheNameOfTheStorageTellsWhereAllOtherRecordsOfThatTimeAreGone) {
  Lineage line = Lineage({0, 1, 1, 3, 4, 5}).nameStorage(77, {1, 2, 3, 4, 5, 6});
  for (const uint64_t gone : {1, 3, 4}) line.forget(gone);
  EXPECT_TRUE(line.isSuperseded(2, {})) << "6 found what 5 had left";
  EXPECT_FALSE(line.isSuperseded(6, {})) << "it is the last one";
  Lineage unnamed = Lineage({0, 1, 1, 3, 4, 5}).nameStorage(77, {1, 3, 4, 5, 6});
  for (const uint64_t gone : {1, 3, 4}) unnamed.forget(gone);
  EXPECT_FALSE(unnamed.isSuperseded(2, {6})) << "nothing tells that 2 had the same storage";
}

TEST(StorageLineage, TheNameOfTheStorageJoinsLinesThatBeganWithOtherNames) {
  const Lineage line = Lineage({0, 0, 2, 3}).nameStorage(77, {1, 3, 4}).nameStorage(78, {2});
  EXPECT_TRUE(line.isSuperseded(1, {4})) << "3 has found 2, and tells the name that 1 told";
  EXPECT_TRUE(line.isSuperseded(1, {})) << "4 found what 3 had left";
}

TEST(StorageLineage, StoredNonsenseEnds) {
  const Lineage line({2, 1, 3, 9});
  for (uint64_t id = 1; id <= 4; ++id) line.isSuperseded(id, {1, 2, 3, 4});
  const Lineage named = Lineage({2, 1, 3, 9, 0}).nameStorage(77, {2, 3, 4, 5});
  for (uint64_t id = 1; id <= 5; ++id) named.isSuperseded(id, {1, 2, 3, 4, 5});
}

}  // namespace
}  // namespace ramcore::coordinator
