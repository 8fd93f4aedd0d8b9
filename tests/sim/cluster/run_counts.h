#pragma once

#include <array>
#include <cstdint>

#include "base/points.h"
#include "sim/cluster/cleaning_steps.h"
#include "sim/cluster/frame_judge.h"
#include "sim/cluster/guard_counts.h"
#include "sim/cluster/move_steps.h"
#include "sim/cluster/settings.h"
#include "sim/workload/generator.h"

namespace ramcore::sim {

/// What happened in a run; added up over many seeds, where each count has a floor.
struct RunCounts {
  uint64_t calls[kCallKindCount] = {};
  /// Completed operations: what clients called and got a definite answer to, parts counted one by one. Not among them:
  /// calls without an outcome or put off, what a scan showed, and the reading of the end state.
  uint64_t operations = 0;
  uint64_t outcomes_unknown = 0;
  uint64_t messages_lost = 0;     ///< by themselves
  uint64_t frames_changed = 0;    ///< of which a bit was turned over
  uint64_t messages_blocked = 0;  ///< lost or held by a partition
  uint64_t messages_delayed = 0;
  uint64_t requests_given_up_late = 0;  ///< arrived after their caller had given the session up
  uint64_t messages_duplicated = 0;
  uint64_t duplicates_suppressed = 0;  ///< by the transport
  uint64_t messages_reordered = 0;
  uint64_t partitions = 0;
  uint64_t sessions_cut = 0;
  uint64_t long_pauses = 0;     ///< of servers, longer than their lease
  uint64_t cuts_from_all = 0;   ///< the coordinator was, from servers
  uint64_t cuts_from_half = 0;  ///< of them, at least
  uint64_t cuts_from_one = 0;
  uint64_t cuts_judged = 0;         ///< of those from all: nobody was declared dead meanwhile
  uint64_t other_clusters = 0;      ///< whose coordinator was in the place of the right one
  uint64_t older_copies = 0;        ///< of the state, with which a coordinator was started
  uint64_t older_copies_found = 0;  ///< of them: those that served nobody in the end
  uint64_t verdicts_by_silence = 0;
  uint64_t coordinator_restarts = 0;
  // Of them, those while such a transition was under way.
  uint64_t restarts_preparing = 0;  ///< a move whose destination got ready
  uint64_t restarts_freezing = 0;   ///< a move whose source was frozen, or about to be
  uint64_t restarts_arriving = 0;   ///< a move whose tablet's contents were in two logs
  uint64_t restarts_returning = 0;  ///< a move that was taken back
  uint64_t restarts_arrived = 0;    ///< a move whose source had not dropped the tablet
  uint64_t restarts_giving_up = 0;  ///< a move
  uint64_t restarts_splitting = 0;
  uint64_t restarts_fencing = 0;     ///< a dead server's tablets were assigned to nobody yet
  uint64_t restarts_recovering = 0;  ///< they were being fetched
  uint64_t restarts_taking = 0;      ///< they were granted, and their new owner had not answered for them
  uint64_t restarts_releasing = 0;   ///< a dead server had no more tablets, and was not stored as recovered
  uint64_t moves_done = 0;
  uint64_t moves_failed = 0;
  uint64_t moves_taken_back = 0;  ///< of them, after the hand-over
  uint64_t splits_done = 0;
  uint64_t stale_epochs = 0;  ///< requests refused for their epoch
  uint64_t lease_refusals = 0;
  uint64_t duplicates_answered = 0;  ///< from a result record
  uint64_t segments_cleaned = 0;
  uint64_t segments_compacted = 0;
  uint64_t bytes_shared = 0;                        ///< copied by a second cleaner
  uint64_t moves_back = 0;                          ///< at once, to the owner before
  uint64_t moves_on = 0;                            ///< at once, to a third server
  uint64_t moves_then_split = 0;                    ///< splits of tablets that were asked for while these moved
  uint64_t move_deaths[kMoveStepCount] = {};        ///< of servers that take part, at each step of a move
  uint64_t move_power_losses[kMoveStepCount] = {};  ///< of them, those of machines
  uint64_t move_restarts[kMoveStepCount] = {};      ///< of the coordinator, at each step of a move
  uint64_t move_losses[kMoveStepCount] = {};        ///< of objects, at each step of a move
  uint64_t move_victims[kMoveVictimsCount] = {};    ///< the same, by who died
  uint64_t move_drops[kMoveStepCount] = {};         ///< of tables, at each step of a move of one of their tablets
  uint64_t tables_dropped = 0;                      ///< of those that were created for that
  uint64_t objects_spoiled = 0;                     ///< of tablets that moved, in the memory of a master
  uint64_t servers_retired = 0;                     ///< declared dead in the middle of a hand-over
  uint64_t bucket_splits = 0;                       ///< of the hash indexes
  uint64_t answers_judged = 0;                      ///< for showing nothing that is not durable
  uint64_t logs_replayed = 0;
  uint64_t logs_recounted = 0;  ///< what is alive in them, and compared with their counters
  uint64_t slow_reads = 0;      ///< threads that stood still while they read what the cleaner was about to move
  uint64_t slow_pins = 0;       ///< of them, those that held a pin in the end
  // Only with crashes.
  uint64_t servers_killed = 0;
  uint64_t clusters_killed = 0;   ///< all servers in one instant
  uint64_t servers_rejected = 0;  ///< found out that they had been declared dead
  uint64_t replicas_lost = 0;     ///< as masters saw it
  uint64_t floors_raised = 0;
  uint64_t replicas_repaired = 0;    ///< of closed segments
  uint64_t fenced_refusals = 0;      ///< of writes and frees by servers that were declared dead
  uint64_t servers_recovered = 0;    ///< with tablets
  uint64_t recoveries_given_up = 0;  ///< attempts, for want of places
  uint64_t tablets_recovered = 0;
  uint64_t refused_full = 0;  ///< replicas, by backups without a frame for them
  uint64_t power_losses = 0;
  uint64_t power_losses_at_once = 0;  ///< of several machines
  uint64_t alone_with_power = 0;      ///< of all but one, whose server may have acknowledged what no other has any more
  uint64_t sectors_lost = 0;          ///< by them
  uint64_t sectors_torn = 0;          ///< by them
  uint64_t flushes_failed = 0;
  uint64_t writes_queued = 0;   ///< of replicas, for the thread of a backup's disk
  uint64_t writes_stalled = 0;  ///< of them, those for which that thread stood still
  uint64_t disks_slowed = 0;
  uint64_t bits_flipped = 0;
  uint64_t bytes_scrubbed = 0;
  uint64_t replicas_rotten = 0;      ///< that could not be read any more, whoever found out, dying processes included
  uint64_t compacted_compared = 0;   ///< of the replicas compared: of segments compacted in memory
  uint64_t replicas_compared = 0;    ///< on disk, with what their masters have in memory
  uint64_t moments_judged = 0;       ///< at which the disks held what clients had been told
  uint64_t disks_replayed = 0;       ///< logs, at those moments, from all machines or some
  uint64_t partly_replayed = 0;      ///< of them, from some
  uint64_t lent_judged = 0;          ///< tablets whose contents were in two logs
  JudgeCounts judged = {};           ///< by the judge of frames
  uint64_t clusters_powerless = 0;   ///< all machines lost their power in one instant
  uint64_t flushes_requested = 0;    ///< of replicas, because somebody waited
  uint64_t silent_for_ever = 0;      ///< servers whose peers' sessions stayed, until they were killed
  uint64_t silences_outlasted = 0;   ///< of them, those of which every client was judged for how long it was kept
  uint64_t silences_with_death = 0;  ///< of these, those with which another server died
  uint64_t silences_waited_for = 0;  ///< of these, those whose storage a dead server's log could not do without
  uint64_t late_writers = 0;         ///< went on with writes under way after they had been declared dead
  uint64_t servers_stopped = 0;      ///< in order, to the end
  uint64_t disks_lied = 0;           ///< periods in which flushes did nothing
  uint64_t lies = 0;                 ///< flushes that did nothing
  uint64_t power_losses_after_lies = 0;
  uint64_t cleaning_crashes[kCleaningStepCount] = {};  ///< servers that died at each step of cleaning
  uint64_t losses_tried = 0;                           ///< logs that were damaged for good in the end
  uint64_t losses_accepted = 0;                        ///< of them, those of which something had to be given up
  uint64_t keys_lost = 0;                              ///< by that; or back at an older value
  // Of runs with drawn settings.
  uint64_t fast_calls = 0;         ///< that began without a coroutine
  uint64_t futures = 0;            ///< calls with a future
  uint64_t futures_dropped = 0;    ///< of them, those whose future was dropped at once
  uint64_t overlapping_calls = 0;  ///< that began while another one of the client was on its way
  uint64_t clients_paused = 0;
  uint64_t clients_paused_long = 0;  ///< of them, for longer than their lease
  uint64_t leases_raised = 0;        ///< coordinators that were started again with a longer one
  uint64_t leases_lowered = 0;
  uint64_t lowered_and_cut = 0;  ///< while a server was cut off, and no coordinator lived for long
  uint64_t servers_changed = 0;  ///< were started again with another memory, or other copies
  // Of both kinds of runs.
  uint64_t operations_sync = 0;  ///< of `operations`, those on sync tables
  GuardCounts guards;
  std::array<uint64_t, kPointCount> points{};    ///< only with interludes
  std::array<uint64_t, kCornerCount> runs_at{};  ///< that had settings in each corner

  void add(const RunCounts& other);
};

}  // namespace ramcore::sim
