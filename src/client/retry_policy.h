#pragma once

#include <cstdint>

#include "base/status.h"
#include "runtime/clock.h"
#include "runtime/growing_pause.h"
#include "runtime/random.h"

namespace ramcore::client {

/// How a client paces its attempts.
struct RetrySettings {
  int64_t first_ns = 50 * runtime::kNanosPerMicro;  ///< upper bound of the first pause
  int64_t longest_ns = 200 * runtime::kNanosPerMilli;
};

/// The pauses between the attempts of one call: drawn, so that clients that failed together do not come back together,
/// or as long as a server asks for. Counts the attempts.
class Backoff {
 public:
  explicit Backoff(const RetrySettings& settings)
      : longest_ns_(settings.longest_ns), pause_(settings.first_ns, settings.longest_ns) {}

  /// The next pause.
  /// @param retry_after_us  what the server asked for, 0 if nothing; the pause is at least that long, but never longer
  ///                        than twice settings.longest_ns, whatever a server says.
  int64_t nextNs(uint32_t retry_after_us, runtime::Random& random);
  uint32_t attempts() const { return attempts_; }

 private:
  int64_t longest_ns_;
  runtime::DoublingPause pause_;
  uint32_t attempts_ = 0;
};

/// After this number of attempts, a client that is told to try again also asks the coordinator where the tablet is: the
/// owner that it knows may have lost the tablet, and its connections to all processes that could tell it so. The next
/// attempt does not wait for the answer. The coordinator may be cut off from this client, too, or be asked by so many
/// that the next question is not due yet, while the owner serves again.
inline constexpr uint32_t kAttemptsPerQuestion = 8;

/// What a client does about the outcome of one attempt.
enum class Reaction : uint8_t {
  Finish,   ///< it is the call's outcome
  Refresh,  ///< ask the coordinator where the tablet is, then repeat
  Wait,     ///< pause, then repeat
  Relapse,  ///< the client's lease is over: get a new identity, then repeat if nothing can have happened
};

/// The reaction to `status`, of a master's answer or of a call that got none.
Reaction reactionTo(Status status);

/// The outcome of a call that will not be repeated any more.
/// @param last               status of the last attempt
/// @param is_mutation        the call changes something
/// @param may_have_happened  an attempt went out and got no answer
Status finalStatus(Status last, bool is_mutation, bool may_have_happened);

/// Translates the coordinator's answer to a question that a call had to ask first. A status that only the owner of an
/// object can give (the object is not there, or has another version) would be taken for the answer to the call. From
/// the coordinator it makes no sense, so it becomes Corrupt. Other statuses stay as they are.
Status besideTheCall(Status status);

}  // namespace ramcore::client
