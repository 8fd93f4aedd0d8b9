#pragma once

namespace ramcore::rcnic {

// The sender and the receiver each have a processor of their own, always the same, if there are two that this process
// may use: a thread that moves between them in a round would be what is measured.

/// Binds the calling thread to the sender's.
void pinSender();
/// To the receiver's.
void pinReceiver();

}  // namespace ramcore::rcnic
