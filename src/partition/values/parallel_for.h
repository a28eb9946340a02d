// A parallel for over few, long tasks, on a limited number of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace trireme::partition {

/// Calls ask(0) .. ask(count - 1), started in that order, up to four at a time, and returns when
/// all have ended. Rethrows an exception of a task then, the first one's of several.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& ask);

}  // namespace trireme::partition
