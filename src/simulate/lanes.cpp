// Time on the lanes of one rank. Between two actions of the compute lane there are two kinds of
// events: a copy out ends, a copy in begins. They are handled in the order of time.
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <algorithm>
#include <limits>

namespace trireme::simulate {
namespace {

constexpr Seconds kNever{std::numeric_limits<double>::infinity()};

}  // namespace

Lanes::Lanes(const CopyLanes& rates, Bytes held, const Record& record)
    : rates_(rates), record_(record), level_(held) {
  sample();
}

void Lanes::at(std::size_t index) {
  advance(now_);
  index_ = index;
  applied_ = index;
}

void Lanes::set(std::size_t index, Bytes held) {
  index_ = index;
  applied();
  set_level(held);
}

void Lanes::run(Bytes during, Bytes after, Seconds duration) {
  const Seconds asked = now_;
  while (rates_.budget && !leaving_.empty() &&
         during + leaving_bytes_ - coming_bytes_ > *rates_.budget)
    advance(leaving_.front().end);
  waited_ += now_ - asked;
  set_level(during);
  const Seconds end = now_ + duration;
  // Events at exactly the end come after this action's bytes are freed.
  for (Seconds next = next_event(); next < end; next = next_event()) happen(next);
  now_ = end;
  applied();
  set_level(after);
}

void Lanes::offload(const CopyKey& key, Bytes size) {
  const Seconds begin = std::max(now_, out_free_);
  occupy_out(size);
  leaving_.push({key, size, begin, out_free_});
  if (record_.out != nullptr) record_.out->push_back({key, size, begin, out_free_});
  level_ -= size;
  leaving_bytes_ += size;
  moved_ += size;
  applied();
  advance(now_);
}

void Lanes::prefetch(const CopyKey& key, Bytes size) {
  Seconds earliest = now_;
  for (const Copy& copy : leaving_) {
    if (copy.key == key) earliest = std::max(earliest, copy.end);
  }
  coming_.push({key, size, earliest, {}});
  level_ += size;
  coming_bytes_ += size;
  applied();
  advance(now_);
}

void Lanes::await(const CopyKey& key) {
  const auto is_key = [&](const Copy& copy) { return copy.key == key; };
  const Seconds asked = now_;
  while (std::any_of(coming_.begin(), coming_.end(), is_key)) {
    // Compute waits for it, so nothing frees memory any more once all copies out have ended.
    if (no_room_ && leaving_.empty()) {
      now_ = std::max({now_, coming_.front().begin, in_free_});
      begin_copy_in(Room::kAtAnyPrice);
    } else {
      happen(next_event());
    }
  }
  const auto arriving = std::find_if(arriving_.begin(), arriving_.end(), is_key);
  if (arriving != arriving_.end()) advance(Seconds(arriving->end));
  waited_ += now_ - asked;
}

Seconds Lanes::fetch(int layer, Bytes size) {
  const Seconds begin = std::max(now_, in_free_);
  const Seconds end = occupy_in(size);
  if (record_.weights != nullptr) record_.weights->push_back({{.layer = layer}, size, begin, end});
  return end;
}

Seconds Lanes::leave(int layer, Bytes size) {
  const Seconds begin = std::max(now_, out_free_);
  const Seconds end = occupy_out(size);
  if (record_.weights_out != nullptr)
    record_.weights_out->push_back({{.layer = layer}, size, begin, end});
  return end;
}

Seconds Lanes::occupy_in(Bytes size) {
  const Seconds begin = std::max(now_, in_free_);
  in_free_ = begin + size / rates_.in;
  busy_in_ += in_free_ - begin;
  return in_free_;
}

Seconds Lanes::occupy_out(Bytes size) {
  const Seconds begin = std::max(now_, out_free_);
  out_free_ = begin + size / rates_.out;
  busy_out_ += out_free_ - begin;
  return out_free_;
}

Seconds Lanes::next_event() const {
  Seconds next = kNever;
  if (!leaving_.empty()) next = leaving_.front().end;
  if (!coming_.empty() && !no_room_)
    next = std::min(next, std::max(coming_.front().begin, in_free_));
  return std::max(next, now_);
}

void Lanes::happen(Seconds time) {
  now_ = time;
  if (!leaving_.empty() && leaving_.front().end <= time) {
    leaving_bytes_ -= leaving_.front().size;
    leaving_.pop();
    no_room_ = false;
    sample();
  } else {
    begin_copy_in(Room::kNeeded);
  }
}

void Lanes::advance(Seconds time) {
  for (Seconds next = next_event(); next <= time && next < kNever; next = next_event())
    happen(next);
  now_ = std::max(now_, time);
}

void Lanes::begin_copy_in(Room room) {
  const Copy waiting = coming_.front();
  no_room_ = room == Room::kNeeded && rates_.budget && total() + waiting.size > *rates_.budget;
  if (no_room_) return;
  in_free_ = now_ + waiting.size / rates_.in;
  coming_.pop();
  coming_bytes_ -= waiting.size;
  busy_in_ += in_free_ - now_;
  std::erase_if(arriving_, [&](const Copy& copy) { return copy.end <= now_; });
  arriving_.push_back({waiting.key, waiting.size, now_, in_free_});
  if (record_.in != nullptr) record_.in->push_back(arriving_.back());
  sample();
}

void Lanes::set_level(Bytes level) {
  level_ = level;
  no_room_ = false;
  sample();
}

void Lanes::sample() {
  const Bytes held = total();
  if (record_.curve != nullptr && (record_.curve->empty() || record_.curve->back().held != held))
    record_.curve->push_back({now_, held});
  if (held <= peak_.size) return;
  peak_.size = held;
  peak_.time = now_;
  peak_.index = index_;
  peak_.applied = applied_;
  peak_.leaving.assign(leaving_.begin(), leaving_.end());
  peak_.coming.assign(coming_.begin(), coming_.end());
}

}  // namespace trireme::simulate
