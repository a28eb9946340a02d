// Sizes and times in the form of a job, and suggestions for mistyped ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <string>
#include <string_view>

namespace trireme::io {

/// " (did you mean '10GiB'?)" for a text that is not a size but looks like one: "10G", "10 gb".
/// Else "".
std::string size_meant_by(std::string_view text);

/// The size in the form of a job, three digits, rounded up: "95MiB", "27.4GiB". Bytes below 1 KiB.
std::string size_of_at_least(Bytes size);

/// The time in the form of a job, three digits, rounded up: "2.96s", "147us".
std::string time_of_at_least(Seconds time);

/// ", which is 10 bytes (did you mean '10GiB'?)" for a whole number without a unit that is too
/// small for any memory budget. Else "".
std::string forgotten_unit(std::string_view text);

}  // namespace trireme::io
