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

/// Every rank: calls `piece` on this thread, which does some of the work and says whether there is
/// more, until no rank has more. A piece may take its time, as a flush of a slow disk does: another
/// thread meets the other ranks every second, so that none waits in vain; `piece` must not use the
/// channel. What a rank's piece throws, every rank throws as an InputError, Interrupted or
/// ToldError with the same message and ending, and with that rank's machine where the ranks have
/// several: none goes on alone, or begins another piece. Where several ranks fail in one second,
/// the first of them by number is heard.
void work_in_rounds(Channel& channel, const std::function<bool()>& piece, std::string_view what);

/// The same for work that cannot be cut into pieces.
void work_beside_rounds(Channel& channel, const std::function<void()>& work, std::string_view what);

}  // namespace trireme::comm
