// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/metrics.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/io/pieces.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

namespace trireme::record {
namespace {

/// The lines of steps before `first_step`.
std::string earlier_lines(const std::filesystem::path& file, std::int64_t first_step);

/// Throws InputError unless the line is one of ours.
std::int64_t step_of(std::string_view line, const std::filesystem::path& file, std::size_t number);

[[noreturn]] void fail_write(const std::filesystem::path& file);

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path file, std::int64_t first_step)
    : file_(std::move(file)) {
  const bool goes_on = first_step > 0 && std::filesystem::exists(file_);
  io::write_file(file_, goes_on ? earlier_lines(file_, first_step) : "");
  out_.open(file_, std::ios::app | std::ios::binary);
  if (!out_) fail_write(file_);
}

void MetricsFile::append(const StepMetrics& metrics) {
  nlohmann::ordered_json line;
  line["step"] = metrics.step;
  for (const Scalar& scalar : metrics.values) line[scalar.name] = scalar.value;
  out_ << line.dump() + "\n" << std::flush;
  if (!out_) fail_write(file_);
}

void MetricsFile::flush() const {
  io::flush_file(file_);
}

namespace {

std::string earlier_lines(const std::filesystem::path& file, std::int64_t first_step) {
  const std::string content = io::read_file(file);
  std::string kept;
  std::size_t number = 0;
  for (std::size_t start = 0; start < content.size();) {
    const std::size_t end = content.find('\n', start);
    if (end == std::string::npos) break;  // cut short: the step will be run again, or is lost
    const std::string_view line = std::string_view(content).substr(start, end - start);
    if (step_of(line, file, ++number) < first_step) kept.append(line).push_back('\n');
    start = end + 1;
  }
  return kept;
}

std::int64_t step_of(std::string_view line, const std::filesystem::path& file, std::size_t number) {
  const auto read = nlohmann::json::parse(line, nullptr, false);
  if (read.is_object() && read.contains("step") && read["step"].is_number_integer())
    return read["step"].get<std::int64_t>();
  throw InputError(concat(file.string(), ":", number,
                          ": is no metrics line, must be a JSON object with a whole number 'step'; "
                          "move the file away to start a new one"));
}

void fail_write(const std::filesystem::path& file) {
  throw Error(
      concat(file.string(), ": cannot be written: ", std::generic_category().message(errno)));
}

}  // namespace
}  // namespace trireme::record
