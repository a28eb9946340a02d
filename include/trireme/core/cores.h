// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace trireme {

/// Processors that this process may use (its affinity), at least 1; for work whose result does not
/// depend on the number of threads.
int usable_processors();

/// Of the last ten seconds, the share (0..1) in which something that could run waited for a
/// processor; `text` is that of /proc/pressure/cpu. Nothing where it does not say.
std::optional<double> cpu_pressure(std::string_view text);

}  // namespace trireme
