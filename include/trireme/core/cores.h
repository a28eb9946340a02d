// Processors of this process, and how busy the machine is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace trireme {

/// Processors that this process may use (its affinity), at least 1; for work whose result does not
/// depend on the number of threads.
int usable_processors();

/// Share (0..1) of the last ten seconds in which some runnable task waited for a processor; `text`
/// is the content of /proc/pressure/cpu. Nothing where it does not say.
std::optional<double> cpu_pressure(std::string_view text);

}  // namespace trireme
