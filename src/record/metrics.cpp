// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/metrics.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/io/json.h"
#include "trireme/io/pieces.h"

#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

namespace trireme::record {
namespace {

using io::Json;

/// The lines of steps before `first_step`.
std::string earlier_lines(const std::filesystem::path& file, std::int64_t first_step);

/// Calls `act` with every whole line and its content; a last line that was cut short by a crash is
/// left out. Throws InputError for a line that is not a metrics line.
void for_each_line(const std::filesystem::path& file,
                   const std::function<void(std::string_view, const Json&)>& act);

/// Device and inode number of a file; zeros if there is none.
std::pair<std::uint64_t, std::uint64_t> place_of(const std::filesystem::path& file);

[[noreturn]] void fail_write(const std::filesystem::path& file);

}  // namespace

MetricsLine line_of(const StepMetrics& metrics) {
  const double speed = static_cast<double>(metrics.tokens) / metrics.time.count();
  MetricsLine line{.step = metrics.step,
                   .values = {{kTrainLoss, metrics.loss},
                              {kLearningRate, metrics.learning_rate},
                              {kStepTime, metrics.time.count()},
                              {kThroughput, speed}}};
  if (metrics.gradient_norm) line.values.push_back({kGradientNorm, *metrics.gradient_norm});
  return line;
}

MetricsLine validation_line(std::int64_t step, double loss) {
  return {.step = step, .values = {{kValidationLoss, loss}}};
}

MetricsFile::MetricsFile(std::filesystem::path file, std::int64_t first_step)
    : file_(std::move(file)) {
  std::error_code ignored;
  const bool goes_on = first_step > 0 && std::filesystem::exists(file_, ignored);
  io::write_own_file(file_, goes_on ? earlier_lines(file_, first_step) : "");
  out_.open(file_, std::ios::app | std::ios::binary);
  if (!out_) fail_write(file_);
  opened_ = place_of(file_);
}

bool MetricsFile::is_there() const {
  return place_of(file_) == opened_;
}

void MetricsFile::append(const MetricsLine& line) {
  Json json;
  json["step"] = line.step;
  for (const Scalar& scalar : line.values) json[scalar.name] = scalar.value;
  out_ << io::one_line(json) + "\n" << std::flush;
  if (!out_) fail_write(file_);
}

void MetricsFile::flush() const {
  io::flush_file(file_);
}

std::vector<MetricsLine> read_metrics(const std::filesystem::path& file) {
  std::vector<MetricsLine> lines;
  for_each_line(file, [&](std::string_view, const Json& read) {
    MetricsLine& line = lines.emplace_back();
    line.step = read["step"].get<std::int64_t>();
    for (const auto& [name, value] : read.items()) {
      if (name == "step" || !(value.is_number() || value.is_null())) continue;
      line.values.push_back(
          {name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>()});
    }
  });
  return lines;
}

namespace {

std::string earlier_lines(const std::filesystem::path& file, std::int64_t first_step) {
  std::string kept;
  for_each_line(file, [&](std::string_view line, const Json& read) {
    if (read["step"].get<std::int64_t>() < first_step) kept.append(line).push_back('\n');
  });
  return kept;
}

void for_each_line(const std::filesystem::path& file,
                   const std::function<void(std::string_view, const Json&)>& act) {
  const std::string content = io::read_file(file);
  std::size_t number = 0;
  for (std::size_t start = 0; start < content.size();) {
    const std::size_t end = content.find('\n', start);
    if (end == std::string::npos) break;
    const std::string_view line = std::string_view(content).substr(start, end - start);
    const Json read = Json::parse(line, nullptr, false);
    ++number;
    if (!read.is_object() || !read.contains("step") || !read["step"].is_number_integer())
      throw InputError(concat(file.string(), ":", number,
                              ": is not a metrics line, must be a JSON object with a whole number "
                              "'step'; rename the file to start a new one"));
    act(line, read);
    start = end + 1;
  }
}

std::pair<std::uint64_t, std::uint64_t> place_of(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

void fail_write(const std::filesystem::path& file) {
  throw Error(
      concat(file.string(), ": cannot be written: ", std::generic_category().message(errno)));
}

}  // namespace
}  // namespace trireme::record
