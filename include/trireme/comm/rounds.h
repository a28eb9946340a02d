// Long work of every rank, with nobody left waiting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/comm/channel.h"

#include <functional>
#include <string_view>

namespace trireme::comm {

/// What one rank failed for and all of them have been told.
class ToldError : public EndingError {
 public:
  using EndingError::EndingError;
};

/// Every rank: calls `piece`, which does some of the work (seconds at most) and says whether there
/// is more, until no rank has more. The ranks meet every second, so that none waits longer for the
/// others than for one piece of theirs. What a rank's piece throws it throws on every rank, as an
/// InputError, Interrupted or ToldError, with its message, its ending, and its place where that is
/// another machine: nobody goes on alone. Where several ranks fail in one second, the first of them
/// by number is heard.
void work_in_rounds(Channel& channel, const std::function<bool()>& piece, std::string_view what);

/// The same for work that cannot be cut into pieces: runs it on this thread, while another one
/// meets the other ranks. `work` must not use the channel.
void work_beside_rounds(Channel& channel, const std::function<void()>& work, std::string_view what);

}  // namespace trireme::comm
