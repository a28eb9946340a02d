// CRC-32C, the checksum of TensorBoard's files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme::record {

/// Castagnoli's polynomial, reflected, as in iSCSI (RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

/// The form that the record files store: rotated and shifted, so that checksums over data that
/// contain checksums stay useful.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace trireme::record
