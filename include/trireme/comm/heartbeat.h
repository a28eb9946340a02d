// Long-running work on every rank, with a heartbeat between the ranks so that no rank times out
// waiting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/comm/channel.h"

#include <functional>
#include <string_view>

namespace trireme::comm {

/// An error of one rank that all ranks have been told.
class ToldError : public EndingError {
 public:
  using EndingError::EndingError;
};

/// Collective: calls `piece` on this thread, which does some of the work and returns whether there
/// is more, until no rank has more. A piece may take long, e.g. a flush to a slow disk: another
/// thread exchanges a heartbeat with the other ranks every second, so that none times out; `piece`
/// must not use the channel. If a rank's piece throws, every rank throws an InputError, Interrupted
/// or ToldError with the same message and ending, naming that rank's machine if the ranks are on
/// several; no rank starts another piece. If several ranks fail within one second, the
/// lowest-numbered one's error is thrown.
void run_pieces_with_heartbeat(Channel& channel, const std::function<bool()>& piece,
                               std::string_view what);

/// The same for work that cannot be cut into pieces.
void run_with_heartbeat(Channel& channel, const std::function<void()>& work, std::string_view what);

}  // namespace trireme::comm
