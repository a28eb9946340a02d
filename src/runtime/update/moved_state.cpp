// SPDX-License-Identifier: Apache-2.0
#include "update/moved_state.h"

#include "trireme/core/error.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>

#include <utility>

namespace trireme::runtime {

MovedState::MovedState(std::unique_ptr<tier::ValueCopies> copies, c10::Device device)
    : copies_(std::move(copies)), device_(device) {}

MovedState::~MovedState() {
  copies_->abandon();
}

tier::ValueCopies::Key MovedState::key(std::size_t i) {
  return {.tape = false, .layer = static_cast<int>(i), .micro_batch = 0};
}

at::Tensor MovedState::add(std::int64_t numbers) {
  close();
  const tier::TagScope tag(tier::Tag::kOptimizer);
  here_ = parts_.size();
  parts_.push_back(at::zeros({numbers}, at::TensorOptions(at::kFloat).device(device_)));
  return parts_.back();
}

at::Tensor MovedState::part(std::size_t i) {
  if (here_ == i) return parts_.at(i);
  close();
  const tier::TagScope tag(tier::Tag::kOptimizer);
  copies_->prefetch(key(i));
  copies_->begin_next();
  copies_->await(key(i));
  here_ = i;
  return parts_.at(i);
}

void MovedState::close() {
  if (!here_) return;
  send(*std::exchange(here_, std::nullopt));
  copies_->release_next();
}

void MovedState::send(std::size_t i) {
  copies_->offload(key(i), {parts_[i].storage()});
}

void MovedState::begin(std::vector<std::size_t> parts, chain::StateParts most) {
  ensure(order_.empty(), "parts pass once at a time");
  close();
  count_copies();
  order_ = std::move(parts);
  passing_ = {order_.size(), most};
  for (const std::size_t part : order_) copies_->prefetch(key(part));
  bring();
}

void MovedState::bring() {
  const tier::TagScope tag(tier::Tag::kOptimizer);
  while (passing_.begin_next()) copies_->begin_next();
}

void MovedState::use_next(const std::function<void(std::size_t)>& use, const Waits& waits) {
  const std::size_t part = order_.at(passing_.used());
  waits.time([&] { copies_->await(key(part)); });
  moved_.size += Bytes(static_cast<std::int64_t>(parts_[part].nbytes()));
  use(part);
  send(part);
  if (passing_.use_next()) waits.time([&] { copies_->release_next(); });
  bring();
}

void MovedState::end(const Waits& waits) {
  if (order_.empty()) return;
  ensure(are_all_used(), "all parts were used");
  waits.time([&] {
    while (passing_.leave_next()) copies_->release_next();
  });
  order_.clear();
}

MovedState::Moved MovedState::take_moved() {
  count_copies();
  return std::exchange(moved_, {});
}

void MovedState::count_copies() {
  copies_->drain();
  const tier::ValueCopies::Spans spans = copies_->take_spans();
  for (const tier::CopyLane::Span& span : spans.out) moved_.out += span.time();
  for (const tier::CopyLane::Span& span : spans.in) moved_.in += span.time();
}

}  // namespace trireme::runtime
