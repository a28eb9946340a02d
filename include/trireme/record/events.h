// TensorBoard event files: curves to watch in a browser during a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/record/metrics.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace trireme::record {

/// How an event file is opened: the writer itself reads no clock and no host name.
struct EventFileStart {
  Seconds wall_time;            ///< since 1970
  std::string host;             ///< end of the file's name
  std::int64_t first_step = 0;  ///< > 0, a resumed run: viewers drop earlier files' later steps
};

class EventFile {
 public:
  /// Creates events.out.tfevents.<seconds>.<host> in `folder`; ".1", ".2", ... is appended to a
  /// name that is taken. Throws Error.
  EventFile(const std::filesystem::path& folder, const EventFileStart& start);

  /// Appends a point for every value to the curve of the value's name, and flushes. TensorBoard
  /// keeps float precision. Throws Error.
  void append(const MetricsLine& line, Seconds wall_time);
  /// Forces all points so far to disk. Throws Error.
  void flush() const;

  const std::filesystem::path& file() const { return file_; }

 private:
  void write_record(std::string_view payload);

  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace trireme::record
