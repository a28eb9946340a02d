// TensorBoard's event files: curves to look at in a browser while a run goes on.
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

/// What an event file is opened with: the writer reads no clock and no host name.
struct EventFileStart {
  Seconds wall_time;            ///< since 1970
  std::string host;             ///< end of the file's name
  std::int64_t first_step = 0;  ///< > 0, a resumed run: viewers drop earlier files' later steps
};

class EventFile {
 public:
  /// Creates events.out.tfevents.<seconds>.<host> in `folder`; a name that is taken gets ".1",
  /// ".2", ... behind it. Throws Error.
  EventFile(const std::filesystem::path& folder, const EventFileStart& start);

  /// A point for every value, its curve named as the value, flushed. TensorBoard keeps float
  /// precision. Throws Error.
  void append(const StepMetrics& metrics, Seconds wall_time);
  /// All points so far are on disk. Throws Error.
  void flush() const;

  const std::filesystem::path& file() const { return file_; }

 private:
  void write_record(std::string_view payload);

  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace trireme::record
