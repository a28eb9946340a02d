// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/past.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace trireme::model {

Past::Seen Past::see(const at::Tensor& k_BTGD, const at::Tensor& v_BTGD) {
  const std::int64_t piece = k_BTGD.size(1);
  ensure(tokens_ + piece <= most_tokens_, "a text has room");
  make_room(k_BTGD, piece);
  keys_.narrow(2, kept_, piece).copy_(k_BTGD.transpose(1, 2));
  values_.narrow(2, kept_, piece).copy_(v_BTGD.transpose(1, 2));
  kept_ += piece;
  const std::int64_t seen = window_ ? std::min(kept_, *window_ - 1 + piece) : kept_;
  return {.k_BGSD = keys_.narrow(2, kept_ - seen, seen),
          .v_BGSD = values_.narrow(2, kept_ - seen, seen)};
}

void Past::make_room(const at::Tensor& like_BTGD, std::int64_t more) {
  const std::int64_t room = keys_.defined() ? keys_.size(2) : 0;
  if (kept_ + more <= room) return;
  // With capacity for twice the window, a token's keys move once per window length.
  const std::int64_t stay = window_ ? std::min(kept_, *window_ - 1) : kept_;
  const std::int64_t wanted =
      window_ ? std::min(most_tokens_, *window_ + std::max(*window_, more)) : most_tokens_;
  const auto moved = [&](const at::Tensor& kept) {
    at::Tensor into =
        stay + more <= room
            ? kept
            : at::empty({like_BTGD.size(0), like_BTGD.size(2), wanted, like_BTGD.size(3)},
                        like_BTGD.options().requires_grad(false));
    if (stay > 0) into.narrow(2, 0, stay).copy_(kept.narrow(2, kept_ - stay, stay).clone());
    return into;
  };
  keys_ = moved(keys_);
  values_ = moved(values_);
  kept_ = stay;
}

at::Tensor Past::mask(std::int64_t piece, std::int64_t seen, c10::Device device) const {
  const at::TensorOptions whole = at::TensorOptions(device).dtype(at::kLong);
  const at::Tensor query_T1 = at::arange(seen - piece, seen, whole).unsqueeze(1);
  const at::Tensor distance_TS = query_T1 - at::arange(seen, whole);
  const at::Tensor is_before_TS = distance_TS >= 0;
  return window_ ? is_before_TS.logical_and(distance_TS < *window_) : is_before_TS;
}

}  // namespace trireme::model
