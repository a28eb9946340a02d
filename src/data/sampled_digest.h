// Digests of files that are too large to be read for one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace trireme::data {

/// A digest of the size and of the content, of large files of evenly spaced pages.
std::string sampled_digest(std::span<const std::byte> bytes);

}  // namespace trireme::data
