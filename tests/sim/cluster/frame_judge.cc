#include "sim/cluster/frame_judge.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <string_view>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

namespace ramcore::sim {
namespace {

using Json = nlohmann::json;
constexpr uint64_t kPieceBytes = 4096;
constexpr std::string_view kFrameFile = "frames";

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

/// [offset, bytes] of what was ever written; the rest is zero.
Json runsOf(const JudgedMoment::Disk& disk) {
  Json runs = Json::array();
  for (uint64_t at = 0; at < disk.frames.size(); at += kPieceBytes) {
    const uint64_t bytes = std::min(kPieceBytes, disk.frames.size() - at);
    if (disk.disk->lastChange(kFrameFile, at, bytes) == 0) continue;
    if (!runs.empty() && runs.back()[0].get<uint64_t>() + runs.back()[1].get<uint64_t>() == at) {
      runs.back()[1] = runs.back()[1].get<uint64_t>() + bytes;
    } else {
      runs.push_back({at, bytes});
    }
  }
  return runs;
}

Json of(const JudgedMoment::Owner& owner) {
  Json tablets = Json::array();
  for (const JudgedMoment::Tablet& tablet : owner.tablets) {
    tablets.push_back({{"table", tablet.table.value},
                       {"first_hash", tablet.range.first},
                       {"last_hash", tablet.range.last},
                       {"first_segment", tablet.first_segment.value}});
  }
  return {{"server", owner.server.value},
          {"floor", {owner.floor_segment.value, owner.floor_epoch}},
          {"all_sync", owner.is_all_sync},
          {"tablets", std::move(tablets)}};
}

Json of(const JudgedMoment::Key& key) {
  Json may_write = Json::array();
  for (const ObservedValue& value : key.may_write) may_write.push_back(of(value));
  return {{"key", hexOf(key.bytes)},
          {"table", key.table.value},
          {"shown", key.shown},
          {"removed", key.removed},
          {"value", key.value ? of(*key.value) : Json()},
          {"may_write", std::move(may_write)},
          {"may_increment", key.may_increment},
          {"may_remove", key.may_remove},
          {"any", key.is_any}};
}

Json of(const JudgedMoment& moment) {
  Json all = {{"seed", moment.seed},
              {"when", moment.when},
              {"machines", Json::array()},
              {"owners", Json::array()},
              {"keys", Json::array()},
              {"parts", Json::array()},
              {"deceived", moment.was_deceived},
              {"alone", moment.alone ? moment.alone->value : 0},
              {"power_failure", moment.is_power_failure}};
  for (size_t i = 0; i < moment.disks.size(); ++i) {
    const JudgedMoment::Disk& disk = moment.disks[i];
    all["machines"].push_back({{"machine", i + 1},
                               {"bytes", disk.disk == nullptr ? Json() : Json(disk.frames.size())},
                               {"power_epoch", disk.power_epoch},
                               {"runs", disk.disk == nullptr ? Json::array() : runsOf(disk)}});
  }
  for (const JudgedMoment::Owner& owner : moment.owners) all["owners"].push_back(of(owner));
  for (const JudgedMoment::Key& key : moment.keys) all["keys"].push_back(of(key));
  for (const uint32_t part : moment.parts) {
    Json machines = Json::array();
    for (size_t i = 0; i < moment.disks.size(); ++i) {
      if ((part & (1U << i)) != 0) machines.push_back(i + 1);
    }
    all["parts"].push_back(std::move(machines));
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
  const Json answer = line ? Json::parse(*line, nullptr, false) : Json();
  if (!answer.is_object() || !answer.contains("failures") || !answer.contains("counts")) return gone;
  JudgeVerdict verdict;
  for (const Json& failure : answer["failures"]) verdict.failures.push_back(failure.get<std::string>());
  for (size_t i = 0; i < kJudgeCountNames.size(); ++i)
    verdict.counts[i] = answer["counts"].value(kJudgeCountNames[i], 0);
  return verdict;
}

bool FrameJudge::send(const JudgedMoment& moment) {
  const Json all = of(moment);
  const std::string head = all.dump() + "\n";
  if (!write(head.data(), head.size())) return false;
  for (size_t i = 0; i < moment.disks.size(); ++i) {
    for (const Json& run : all["machines"][i]["runs"]) {
      const ByteSpan bytes = moment.disks[i].frames.subspan(run[0].get<uint64_t>(), run[1].get<uint64_t>());
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
