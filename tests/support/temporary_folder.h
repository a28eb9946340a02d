// A folder of its own for each of them, gone when the test ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <system_error>

namespace trireme::support {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> made = 0;
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = "trireme." + std::to_string(::getpid()) + "." + std::to_string(++made);
    if (test != nullptr) name += std::string(".") + test->test_suite_name() + "." + test->name();
    for (char& c : name) c = c == '/' ? '_' : c;
    path_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace trireme::support
