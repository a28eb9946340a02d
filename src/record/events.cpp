// A record is length (8 bytes), masked CRC of the length, payload, masked CRC of the payload, all
// little-endian. The payload is a protobuf message `Event`, of which we write
//
//     Event{double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
//           SessionLog session_log = 7;}
//     Summary{repeated Value value = 1;}   Value{string tag = 1; float simple_value = 2;}
//     SessionLog{Status status = 1;}       Status: START = 1
//
// by hand: a field is its number x 8 + wire type (0 varint, 1 eight bytes, 2 length and bytes, 5
// four bytes) and then its value.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/events.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/pieces.h"
#include "trireme/record/crc32c.h"

#include <bit>
#include <cerrno>
#include <cmath>
#include <system_error>

namespace trireme::record {
namespace {

namespace fs = std::filesystem;

/// A protobuf message under construction.
class Message {
 public:
  Message& varint(std::uint64_t field, std::uint64_t value);
  Message& fixed64(std::uint64_t field, double value);
  Message& fixed32(std::uint64_t field, float value);
  Message& text(std::uint64_t field, std::string_view value);

  const std::string& bytes() const { return bytes_; }

 private:
  void put(std::uint64_t value);

  std::string bytes_;
};

std::string little_endian(std::uint64_t value, int bytes);
fs::path free_name(const fs::path& folder, const EventFileStart& start);
Message event_at(Seconds wall_time, std::int64_t step);
[[noreturn]] void fail_write(const fs::path& file);

}  // namespace

EventFile::EventFile(const fs::path& folder, const EventFileStart& start) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw Error(concat(folder.string(), ": cannot be created: ", failure.message()));
  file_ = free_name(folder, start);
  io::OutputFile(file_).finish();  // new, so that no link is followed
  out_.open(file_, std::ios::app | std::ios::binary);
  write_record(event_at(start.wall_time, 0).text(3, "brain.Event:2").bytes());
  if (start.first_step == 0) return;
  const Message restarted = Message().varint(1, 1);
  write_record(event_at(start.wall_time, start.first_step).text(7, restarted.bytes()).bytes());
}

void EventFile::append(const MetricsLine& line, Seconds wall_time) {
  Message summary;
  for (const Scalar& scalar : line.values) {
    const Message value =
        Message().text(1, scalar.name).fixed32(2, static_cast<float>(scalar.value));
    summary.text(1, value.bytes());
  }
  write_record(event_at(wall_time, line.step).text(5, summary.bytes()).bytes());
}

void EventFile::flush() const {
  io::flush_file(file_);
}

void EventFile::write_record(std::string_view payload) {
  const std::string length = little_endian(payload.size(), 8);
  out_ << length << little_endian(masked_crc32c(length), 4) << payload
       << little_endian(masked_crc32c(payload), 4) << std::flush;
  if (!out_) fail_write(file_);
}

namespace {

Message& Message::varint(std::uint64_t field, std::uint64_t value) {
  put(field << 3);
  put(value);
  return *this;
}

Message& Message::fixed64(std::uint64_t field, double value) {
  put(field << 3 | 1);
  bytes_ += little_endian(std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

Message& Message::fixed32(std::uint64_t field, float value) {
  put(field << 3 | 5);
  bytes_ += little_endian(std::bit_cast<std::uint32_t>(value), 4);
  return *this;
}

Message& Message::text(std::uint64_t field, std::string_view value) {
  put(field << 3 | 2);
  put(value.size());
  bytes_ += value;
  return *this;
}

void Message::put(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
  bytes_.push_back(static_cast<char>(value));
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

fs::path free_name(const fs::path& folder, const EventFileStart& start) {
  const auto seconds = static_cast<std::int64_t>(std::floor(start.wall_time.count()));
  const std::string name = concat("events.out.tfevents.", seconds, ".", start.host);
  fs::path file = folder / name;
  std::error_code none;
  for (int copy = 1; fs::exists(fs::symlink_status(file, none)); ++copy)
    file = folder / concat(name, ".", copy);
  return file;
}

Message event_at(Seconds wall_time, std::int64_t step) {
  Message event;
  event.fixed64(1, wall_time.count());
  if (step != 0) event.varint(2, static_cast<std::uint64_t>(step));  // proto3 leaves zeros out
  return event;
}

void fail_write(const fs::path& file) {
  throw Error(
      concat(file.string(), ": cannot be written: ", std::generic_category().message(errno)));
}

}  // namespace
}  // namespace trireme::record
