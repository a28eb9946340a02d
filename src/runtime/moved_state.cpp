// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/moved_state.h"

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

void MovedState::for_each(const std::function<void(std::size_t)>& use) {
  close();
  // What the copies before this took is of no interest, and would be kept for ever.
  copies_->drain();
  copies_->take_spans();
  const tier::TagScope tag(tier::Tag::kOptimizer);
  const std::size_t count = parts_.size();
  for (std::size_t i = 0; i < count; ++i) copies_->prefetch(key(i));
  for (std::size_t i = 0; i < std::min<std::size_t>(2, count); ++i) copies_->begin_next();
  for (std::size_t i = 0; i < count; ++i) {
    copies_->await(key(i));
    use(i);
    send(i);
    if (i > 0) copies_->release_next();
    if (i + 2 < count) copies_->begin_next();
  }
  if (count > 0) copies_->release_next();
}

}  // namespace trireme::runtime
