// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/cores.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <thread>

namespace trireme {

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::optional<double> cpu_pressure(std::string_view text) {
  constexpr std::string_view kBegin = "some avg10=";
  const std::size_t at = text.find(kBegin);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kBegin.size());
  double percent = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (end.ec != std::errc() || percent < 0 || percent > 100) return std::nullopt;
  return percent / 100;
}

}  // namespace trireme
