// Digests of files that are too large to be read whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace trireme::data {

/// A digest of size and content; of large files, evenly spaced pages instead of all content.
std::string sampled_digest(std::span<const std::byte> bytes);

}  // namespace trireme::data
