// Several questions at once, on as many cores as help.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace trireme::partition {

/// Calls ask(0) .. ask(count - 1), each begun in that order, up to four of them at once, and
/// returns when all have ended. What one throws is thrown then; of several the first.
void each_at_once(std::size_t count, const std::function<void(std::size_t)>& ask);

}  // namespace trireme::partition
