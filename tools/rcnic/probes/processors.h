#pragma once

namespace ramcore::rcnic {

// The sender and the receiver each have a processor of their own, always the same, if there are two that this process
// may use: if a thread moved between processors in a round, that move would be measured.

/// Binds the calling thread to the sender's processor.
void pinSender();
/// Binds the calling thread to the receiver's processor.
void pinReceiver();

}  // namespace ramcore::rcnic
