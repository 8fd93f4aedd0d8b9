#include "sim/cluster/frame_judge.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <initializer_list>
#include <string_view>

#include "backup/frame_file.h"
#include "tools/support/json.h"

namespace ramcore::sim {
namespace {

using tools::Json;
constexpr uint64_t kPieceBytes = 4096;

struct Run {
  uint64_t at = 0;
  uint64_t bytes = 0;
};

std::string hexOf(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

Json of(const ObservedValue& value) { return Json::array({value.bits, value.is_integer}); }

/// The bytes of a disk's frames that were ever written; the rest is zero.
std::vector<Run> runsOf(const JudgedMoment::Disk& disk) {
  std::vector<Run> runs;
  if (disk.disk == nullptr) return runs;
  for (uint64_t at = 0; at < disk.frames.size(); at += kPieceBytes) {
    const uint64_t bytes = std::min(kPieceBytes, disk.frames.size() - at);
    if (disk.disk->lastChange(backup::FrameFile::kFileName, at, bytes) == 0) continue;
    if (!runs.empty() && runs.back().at + runs.back().bytes == at) {
      runs.back().bytes += bytes;
    } else {
      runs.push_back({.at = at, .bytes = bytes});
    }
  }
  return runs;
}

// Members stand in the alphabetical order of their names.

Json of(const JudgedMoment::Owner& owner) {
  Json tablets = Json::array();
  for (const JudgedMoment::Tablet& tablet : owner.tablets) {
    tablets.append({{"first_hash", tablet.range.first},
                    {"first_segment", tablet.first_segment.value},
                    {"last_hash", tablet.range.last},
                    {"table", tablet.table.value}});
  }
  return {{"all_sync", owner.is_all_sync},
          {"floor", Json::array({owner.floor_segment.value, owner.floor_epoch})},
          {"server", owner.server.value},
          {"tablets", tablets}};
}

Json of(const JudgedMoment::Key& key) {
  Json may_write = Json::array();
  for (const ObservedValue& value : key.may_write) may_write.append(of(value));
  return {{"any", key.is_any},
          {"key", hexOf(key.bytes)},
          {"may_increment", key.may_increment},
          {"may_remove", key.may_remove},
          {"may_write", may_write},
          {"removed", key.removed},
          {"shown", key.shown},
          {"table", key.table.value},
          {"value", key.value ? of(*key.value) : Json()}};
}

/// @param runs  of each disk
Json of(const JudgedMoment& moment, const std::vector<std::vector<Run>>& runs) {
  Json all = {{"alone", moment.alone ? moment.alone->value : 0},
              {"deceived", moment.was_deceived},
              {"keys", Json::array()},
              {"machines", Json::array()},
              {"owners", Json::array()},
              {"parts", Json::array()},
              {"power_failure", moment.is_power_failure},
              {"seed", moment.seed},
              {"when", moment.when}};
  for (const JudgedMoment::Key& key : moment.keys) all["keys"].append(of(key));
  for (size_t i = 0; i < moment.disks.size(); ++i) {
    const JudgedMoment::Disk& disk = moment.disks[i];
    Json& machine = all["machines"].append({{"bytes", disk.disk == nullptr ? Json() : Json(disk.frames.size())},
                                            {"machine", i + 1},
                                            {"power_epoch", disk.power_epoch},
                                            {"runs", Json::array()}});
    for (const Run& run : runs[i]) machine["runs"].append(Json::array({run.at, run.bytes}));
  }
  for (const JudgedMoment::Owner& owner : moment.owners) all["owners"].append(of(owner));
  for (const uint32_t part : moment.parts) {
    Json& machines = all["parts"].append(Json::array());
    for (size_t i = 0; i < moment.disks.size(); ++i) {
      if ((part & (1U << i)) != 0) machines.append(i + 1);
    }
  }
  return all;
}

void closeAll(std::initializer_list<int> files) {
  for (const int file : files) {
    if (file >= 0) ::close(file);
  }
}

}  // namespace

FrameJudge::~FrameJudge() {
  closeAll({to_, from_});
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

bool FrameJudge::start() {
  if (process_ != 0) return process_ > 0;
  std::array<int, 2> in = {-1, -1};
  std::array<int, 2> out = {-1, -1};
  process_ = -1;
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) {
    closeAll({in[0], in[1]});
    return false;
  }
  ::signal(SIGPIPE, SIG_IGN);  // a judge that has ended is an error of write()
  process_ = ::fork();
  if (process_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::execl(program_.c_str(), program_.c_str(), nullptr);
    ::_exit(127);
  }
  closeAll({in[0], out[1]});
  to_ = in[1];
  from_ = out[0];
  return process_ > 0;
}

JudgeVerdict FrameJudge::judge(const JudgedMoment& moment) {
  const JudgeVerdict gone{
      .failures = {program_ + " gave no verdict: it cannot be run, or has ended; what it said is on stderr"}};
  if (!start() || !send(moment)) return gone;
  const std::optional<std::string> line = readLine();
  const std::optional<Json> answer = line ? Json::parse(*line) : std::nullopt;
  if (!answer || !answer->contains("failures") || !answer->contains("counts")) return gone;
  JudgeVerdict verdict;
  for (const Json& failure : answer->at("failures").elements()) verdict.failures.push_back(failure.asString());
  const Json& counts = answer->at("counts");
  for (size_t i = 0; i < kJudgeCountNames.size(); ++i)
    verdict.counts[i] = counts.valueOf(kJudgeCountNames[i], uint64_t{0});
  return verdict;
}

bool FrameJudge::send(const JudgedMoment& moment) {
  std::vector<std::vector<Run>> runs;
  for (const JudgedMoment::Disk& disk : moment.disks) runs.push_back(runsOf(disk));
  const std::string head = of(moment, runs).dump() + "\n";
  if (!write(head.data(), head.size())) return false;
  for (size_t i = 0; i < moment.disks.size(); ++i) {
    for (const Run& run : runs[i]) {
      const ByteSpan bytes = moment.disks[i].frames.subspan(run.at, run.bytes);
      if (!write(bytes.data(), bytes.size())) return false;
    }
  }
  return true;
}

bool FrameJudge::write(const void* bytes, size_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(to_, at, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    count -= static_cast<size_t>(written);
  }
  return true;
}

std::optional<std::string> FrameJudge::readLine() {
  size_t end = 0;
  while ((end = rest_.find('\n')) == std::string::npos) {
    std::array<char, 4096> piece;
    const ssize_t got = ::read(from_, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    rest_.append(piece.data(), static_cast<size_t>(got));
  }
  std::string line = rest_.substr(0, end);
  rest_.erase(0, end + 1);
  return line;
}

}  // namespace ramcore::sim
