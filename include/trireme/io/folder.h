// Names of folders, as they were given and with their links resolved.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace trireme::io {

/// The absolute path, without the trailing slash of "runs/quickstart/". Throws InputError, about
/// the key or option `key`, where it is relative to a working folder that no longer exists.
std::filesystem::path plain_name(const std::filesystem::path& folder, const std::string& key);

/// As plain_name(), with all links of the parts that exist resolved.
std::filesystem::path real_name(const std::filesystem::path& folder, const std::string& key);

}  // namespace trireme::io
