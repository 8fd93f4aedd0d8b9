#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backup/frame_file.h"
#include "base/bytes.h"
#include "base/result.h"
#include "log/format/entry_view.h"

/// Looks at a frame file without changing it, and says what is wrong with it. For people who have the file and no
/// server, because FrameFile creates, heals and removes. Everything in the file is treated as hostile.
namespace ramcore::backup {

/// The bytes of a frame file that no process writes at the time.
class FrameBytes {
 public:
  virtual ~FrameBytes() = default;
  virtual uint64_t bytes() const = 0;
  /// Fills all of `out`; may block on the disk. Never called for bytes beyond bytes(). IoError.
  [[nodiscard]] virtual Status read(uint64_t offset_bytes, MutableByteSpan out) = 0;
};

/// What one certificate slot of a storage frame holds.
enum class SlotState : uint8_t {
  Empty,        ///< zeros
  Verified,     ///< a certificate, and the storage frame's bytes are those that it was cut for
  Unfulfilled,  ///< a certificate, and the storage frame's bytes are others
  Broken,       ///< neither zeros nor a certificate
};
std::string_view name(SlotState state);

struct SlotFinding {
  SlotState state = SlotState::Empty;
  log::Certificate certificate;  ///< in Verified and Unfulfilled
  std::string why;               ///< the reason of Unfulfilled and Broken; for a person
};

/// What one storage frame holds.
struct FrameFinding {
  uint32_t frame = 0;
  std::array<SlotFinding, FrameFile::kSlotCount> slots;
  /// The newest certificate that verifies: that of the replica which a recovery is shown.
  std::optional<log::Certificate> replica;
  bool is_head = false;  ///< `replica` is that of a head; otherwise it is a survivor of the cleaner or of a side log
  bool may_be_short = false;  ///< a mark says so of `replica`
  /// One line for each damage, for a person. A machine that lost its power also leaves such storage frames; nothing in
  /// them had been promised.
  std::vector<std::string> damage;

  /// True if no certificate was ever written here, or all are gone.
  bool isFree() const;
  /// The certificate that says most, verified or not; nullptr: there is none.
  const log::Certificate* newest() const;
};

/// One entry of a storage frame's bytes, as walkEntries shows it.
struct EntryFinding {
  uint32_t offset_bytes = 0;
  log::DecodeError error = log::DecodeError::None;
  /// Sound if there is no error. With BadChecksum, BadPadding and BadLength its header, key and payload lie within the
  /// bytes, but the payload need not have the form of its type. With other errors it is empty.
  log::EntryView entry;
};

/// Shows all entries of a segment's bytes, sound or not, up to the first that does not say where the next one begins.
/// @param bytes  untrusted; the findings borrow them
/// @return bytes that were shown. Cost: a pass over them
uint32_t walkEntries(ByteSpan bytes, const std::function<void(const EntryFinding&)>& show);

/// Reads a frame file: superblocks first, then one storage frame after the other. One thread at a time.
class FrameInspection {
 public:
  /// Reads the superblocks. Failure, for a person: Corrupt (not a frame file, or neither superblock is whole),
  /// WrongFormat, IoError.
  /// @param file  outlives the inspection
  static Outcome<FrameInspection> open(FrameBytes& file);

  /// The superblock that counts; empty in a file that was never used, which has no storage frames.
  const std::optional<Superblock>& superblock() const { return superblock_; }
  CopyState copyState(size_t place) const { return copies_.stateOf(place); }
  /// Damage of the file as a whole; one line each, for a person.
  const std::vector<std::string>& damage() const { return damage_; }
  /// Storage frames whose headers are in the file: all of them, unless the file was cut off.
  uint32_t frameCount() const { return frame_count_; }

  /// Reads one storage frame and verifies its certificates. What cannot be read counts as damage.
  /// @param frame  below frameCount()
  /// @param bytes  gets the segment's bytes: as many as the longest certificate vouches for; all of the storage frame
  ///               if there is only a broken certificate
  /// Cost: up to four passes over the storage frame's bytes.
  FrameFinding inspect(uint32_t frame, std::vector<std::byte>& bytes);

 private:
  explicit FrameInspection(FrameBytes& file) : file_(&file) {}
  void judgeSuperblocks();
  SlotFinding judgeSlot(ByteSpan slot) const;
  void readSegment(FrameFinding& finding, std::vector<std::byte>& bytes);

  FrameBytes* file_;
  SuperblockCopies copies_;
  std::optional<Superblock> superblock_;
  std::vector<std::string> damage_;
  uint32_t frame_count_ = 0;
};

}  // namespace ramcore::backup
