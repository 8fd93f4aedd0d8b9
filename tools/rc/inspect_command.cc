#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/id_text.h"
#include "log/format/log_reader.h"
#include "tools/rc/commands.h"
#include "tools/rc/frame_file_reader.h"
#include "tools/support/command_line.h"
#include "tools/support/display.h"
#include "tools/support/json.h"

namespace ramcore::rc {
namespace {

using backup::EntryFinding;
using backup::FrameFinding;
using backup::FrameInspection;
using backup::SlotFinding;
using backup::SlotState;
using tools::formatBytes;
using tools::formatServer;
using tools::Json;

constexpr size_t kShownKeyBytesMax = 64;

const char* typeName(log::EntryType type) {
  switch (type) {
    case log::EntryType::Object:
      return "object";
    case log::EntryType::Tombstone:
      return "tombstone";
    case log::EntryType::SegmentHeader:
      return "segment header";
    case log::EntryType::LogDigest:
      return "log digest";
    case log::EntryType::SafeVersion:
      return "safe version";
    case log::EntryType::ResultRecord:
      return "result record";
  }
  return "unknown";
}

// Leaves printable ASCII as it is and writes everything else as \xHH; takes only the first bytes of a long text.
std::string escape(ByteSpan bytes) {
  std::string out;
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kShownKeyBytesMax))) {
    const auto c = static_cast<unsigned char>(byte);
    if (c >= 0x20 && c < 0x7f && c != '\\') {
      out += static_cast<char>(c);
      continue;
    }
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "\\x%02x", c);
    out += text.data();
  }
  return bytes.size() > kShownKeyBytesMax ? out + "..." : out;
}

const char* openOrClosed(const log::Certificate& certificate) { return certificate.closed ? "closed" : "open"; }
const char* kindOf(const FrameFinding& finding) {
  return !finding.replica ? "?" : finding.is_head ? "head" : "survivor";
}

std::string slotsOf(const FrameFinding& finding) {
  std::string out;
  for (const SlotFinding& slot : finding.slots) {
    out += (out.empty() ? "" : " ") + std::string(slot.state == SlotState::Empty ? "-" : name(slot.state));
  }
  return out;
}

struct Totals {
  uint32_t used = 0;
  uint32_t heads = 0;
  uint32_t closed = 0;
  uint32_t damaged = 0;
  uint64_t certified_bytes = 0;

  void add(const FrameFinding& finding) {
    if (finding.isFree()) return;
    ++used;
    damaged += finding.damage.empty() ? 0 : 1;
    if (!finding.replica) return;
    heads += finding.is_head ? 1 : 0;
    closed += finding.replica->closed ? 1 : 0;
    certified_bytes += finding.replica->length_bytes;
  }
};

// ---- as text

void printFile(const FrameFileReader& file, const FrameInspection& inspection) {
  std::printf("frame file %s: %s\n", file.path().c_str(), formatBytes(file.bytes()).c_str());
  const auto& superblock = inspection.superblock();
  if (!superblock) {
    std::printf("it was made and never used\n");
    return;
  }
  std::printf("format %u, cluster %s, last used by server %s, generation %" PRIu64 ", %s\n", superblock->format,
              hexText(superblock->cluster.value).c_str(), formatServer(superblock->server).c_str(),
              superblock->generation, superblock->clean != 0 ? "stopped in order" : "not stopped in order");
  std::printf("%u frames for segments of %s\n", superblock->frame_count, formatBytes(superblock->frame_bytes).c_str());
}

void printHeading() {
  std::printf("\n%8s  %8s  %10s  %8s  %-8s  %-6s  %12s  %s\n", "frame", "master", "segment", "epoch", "kind", "state",
              "certified", "certificates");
}

// Prints the certificate of the replica in the storage frame. If there is no replica, prints the newest certificate,
// which says what should be there.
void printFrame(const FrameFinding& finding) {
  const log::Certificate* const shown = finding.replica ? &*finding.replica : finding.newest();
  if (shown == nullptr) {
    std::printf("%8u  %8s  %10s  %8s  %-8s  %-6s  %12s  %s\n", finding.frame, "?", "?", "?", "?", "?", "0",
                slotsOf(finding).c_str());
    return;
  }
  std::printf("%8u  %8s  %10" PRIu64 "  %8" PRIu64 "  %-8s  %-6s  %12u  %s%s\n", finding.frame,
              formatServer(shown->master).c_str(), shown->segment.value, shown->replica_epoch, kindOf(finding),
              openOrClosed(*shown), finding.replica ? shown->length_bytes : 0, slotsOf(finding).c_str(),
              finding.may_be_short ? "; may be short" : "");
}

void printTotals(const FrameInspection& inspection, const Totals& totals) {
  const uint32_t all = inspection.superblock() ? inspection.superblock()->frame_count : 0;
  std::printf("\n%u of %u frames in use: %u heads, %u closed, %u damaged; %s certified\n", totals.used, all,
              totals.heads, totals.closed, totals.damaged, formatBytes(totals.certified_bytes).c_str());
}

void printDamage(const std::vector<std::string>& damage) {
  for (const std::string& one : damage) std::printf("damaged: %s\n", one.c_str());
}

void printDigest(const log::DigestView& digest) {
  std::printf("\ndigest: previous head %" PRIu64 ", %u segments:", digest.payload.previous_head.value,
              digest.payload.count);
  for (uint32_t i = 0; i < digest.payload.count; ++i) std::printf(" %" PRIu64, digest.at(i).value);
  std::printf("\n");
}

void printEntry(const EntryFinding& finding) {
  const log::EntryView& entry = finding.entry;
  if (!entry) {
    const std::string error(name(finding.error));
    std::printf("%10u  %s; what follows cannot be read\n", finding.offset_bytes, error.c_str());
    return;
  }
  const std::string checked(finding.error == log::DecodeError::None ? "ok" : name(finding.error));
  std::printf("%10u  %-14s  %8u  %16" PRIu64 "  %9u  %9u  %-12s  %s%s\n", finding.offset_bytes, typeName(entry.type()),
              entry.table().value, entry.version(), entry.keyBytes(), entry.payloadBytes(), checked.c_str(),
              escape(entry.key()).c_str(), entry.groupContinues() ? "  (+)" : "");
}

// ---- as JSON

Json asJson(const FrameFileReader& file, const FrameInspection& inspection) {
  Json out = {{"file", file.path()}, {"bytes", file.bytes()}};
  const auto& superblock = inspection.superblock();
  if (!superblock) return out;
  out["format"] = superblock->format;
  out["cluster"] = hexText(superblock->cluster.value);
  out["server"] = formatServer(superblock->server);
  out["generation"] = superblock->generation;
  out["stopped_in_order"] = superblock->clean != 0;
  out["frame_count"] = superblock->frame_count;
  out["segment_bytes"] = superblock->frame_bytes;
  return out;
}

Json asJson(const log::Certificate& certificate) {
  return {{"master", formatServer(certificate.master)},
          {"segment", certificate.segment.value},
          {"epoch", certificate.replica_epoch},
          {"closed", certificate.closed},
          {"certified_bytes", certificate.length_bytes}};
}

Json asJson(const FrameFinding& finding) {
  Json slots = Json::array();
  for (const SlotFinding& slot : finding.slots) {
    Json& one = slots.append({{"state", name(slot.state)}});
    if (!slot.why.empty()) one["why"] = slot.why;
    const bool is_certificate = slot.state == SlotState::Verified || slot.state == SlotState::Unfulfilled;
    if (is_certificate) one.update(asJson(slot.certificate));
  }
  Json out = {{"frame", finding.frame}, {"replica", nullptr}, {"certificates", slots}, {"damage", finding.damage}};
  if (!finding.replica) return out;
  out["replica"] = asJson(*finding.replica);
  out["replica"]["kind"] = kindOf(finding);
  out["replica"]["may_be_short"] = finding.may_be_short;
  return out;
}

Json asJson(const EntryFinding& finding) {
  Json out = {{"offset", finding.offset_bytes}, {"error", nullptr}};
  if (finding.error != log::DecodeError::None) out["error"] = std::string(name(finding.error));
  const log::EntryView& entry = finding.entry;
  if (!entry) return out;
  out["type"] = typeName(entry.type());
  out["table"] = entry.table().value;
  out["version"] = entry.version();
  out["key_bytes"] = entry.keyBytes();
  out["payload_bytes"] = entry.payloadBytes();
  out["key"] = escape(entry.key());
  out["group_continues"] = entry.groupContinues();
  return out;
}

Json asJson(const log::DigestView& digest) {
  Json segments = Json::array();
  for (uint32_t i = 0; i < digest.payload.count; ++i) segments.append(digest.at(i).value);
  return {{"previous_head", digest.payload.previous_head.value}, {"segments", segments}};
}

void print(const Json& json) { std::printf("%s\n", json.dump(2, Json::BadUtf8::Replace).c_str()); }

// ---- both

/// Shows all storage frames, or one with its entries; returns the exit code.
class Report {
 public:
  Report(const FrameFileReader& file, FrameInspection inspection, bool as_json)
      : file_(file), inspection_(std::move(inspection)), as_json_(as_json), json_(asJson(file, inspection_)) {}

  int showAll() {
    json_["frames"] = Json::array();
    if (!as_json_) printFile(file_, inspection_);
    if (!as_json_ && inspection_.frameCount() != 0) printHeading();
    damage_ = inspection_.damage();
    Totals totals;
    for (uint32_t frame = 0; frame < inspection_.frameCount(); ++frame) {
      const FrameFinding finding = inspection_.inspect(frame, bytes_);
      totals.add(finding);
      if (finding.isFree()) continue;
      noteDamage(finding);
      if (as_json_) {
        json_["frames"].append(asJson(finding));
      } else {
        printFrame(finding);
      }
    }
    if (!as_json_) {
      printTotals(inspection_, totals);
      return end();
    }
    json_["used"] = totals.used;
    json_["heads"] = totals.heads;
    json_["closed"] = totals.closed;
    json_["damaged"] = totals.damaged;
    json_["certified_bytes"] = totals.certified_bytes;
    return end();
  }

  int showFrame(uint32_t frame) {
    const FrameFinding finding = inspection_.inspect(frame, bytes_);
    noteDamage(finding);
    log::SegmentPreamble preamble;
    const bool has_digest = log::readPreamble(bytes_, preamble) == Status::Ok && preamble.has_digest;
    if (as_json_) {
      json_["frame"] = asJson(finding);
      if (has_digest) json_["digest"] = asJson(preamble.digest);
      Json& entries = json_["entries"] = Json::array();
      backup::walkEntries(bytes_, [&entries](const EntryFinding& entry) { entries.append(asJson(entry)); });
      return end();
    }
    printFile(file_, inspection_);
    if (finding.isFree()) {
      std::printf("frame %u is free\n", frame);
      return end();
    }
    printHeading();
    printFrame(finding);
    if (has_digest) printDigest(preamble.digest);
    std::printf("\n%10s  %-14s  %8s  %16s  %9s  %9s  %-12s  %s\n", "offset", "type", "table", "version", "key bytes",
                "payload", "checksum", "key; (+): the next one belongs to it");
    backup::walkEntries(bytes_, printEntry);
    return end();
  }

 private:
  void noteDamage(const FrameFinding& finding) {
    const log::Certificate* const newest = finding.newest();
    const std::string of = newest == nullptr ? ""
                                             : " (segment " + std::to_string(newest->segment.value) + " of server " +
                                                   formatServer(newest->master) + ")";
    for (const std::string& one : finding.damage) {
      damage_.push_back("frame " + std::to_string(finding.frame) + of + ": " + one);
    }
  }

  int end() {
    if (as_json_) {
      json_["damage"] = damage_;
      print(json_);
    } else {
      printDamage(damage_);
    }
    return damage_.empty() ? tools::kExitOk : tools::kExitPartial;
  }

  const FrameFileReader& file_;
  FrameInspection inspection_;
  const bool as_json_;
  Json json_;
  std::vector<std::byte> bytes_;
  std::vector<std::string> damage_;
};

struct InspectFlags {
  std::string path;
  std::optional<uint64_t> frame;
  bool as_json = false;
};

int inspect(Session& session, const InspectFlags& flags) {
  const auto file = FrameFileReader::open(flags.path);
  if (!file.ok()) return session.fail(file.error());
  auto inspection = FrameInspection::open(**file);
  if (!inspection.ok()) {
    return session.fail({inspection.error().status, (*file)->path() + ": " + inspection.error().message});
  }
  if (flags.frame && *flags.frame >= inspection->frameCount()) {
    return session.fail({Status::BadConfig, "--frame " + std::to_string(*flags.frame) + ": the file has " +
                                                std::to_string(inspection->frameCount()) + " frames, from 0 on"});
  }
  Report report(**file, std::move(inspection).value(), flags.as_json);
  return flags.frame ? report.showFrame(static_cast<uint32_t>(*flags.frame)) : report.showAll();
}

}  // namespace

void addInspectCommand(tools::Command& app, Session& session, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  tools::Command command = app.addCommand("inspect", "Shows and verifies the frame file of a server that does not run");
  command.addOption("PATH", flags->path, "The server's --storage directory, or the frame file").required();
  command.addOption("--frame", flags->frame, "Only this frame, with its entries").check(tools::wholeNumber());
  command.addFlag("--json", flags->as_json, "As JSON");
  command.onGiven([&, flags] { exit_code = inspect(session, *flags); });
}

}  // namespace ramcore::rc
