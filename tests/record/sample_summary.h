// A summary with numbers that can be checked by eye.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/record/summary.h"

namespace trireme::record {

inline Summary sample_summary() {
  return {.steps = 300,
          .resumed_after = 100,
          .train_loss = 2.125,
          .train_loss_steps = 10,
          .validation_loss = 2.25,
          .unigram_entropy = 3.125,
          .unigram_cross_entropy = 3.25,
          .tokens_per_s = 12345,
          .step = Seconds(0.5),
          .predicted_step = Seconds(0.4),
          .bubble = 0.25,
          .parameters = 1839360,
          .trained_parameters = 24576,
          .total = Seconds(150),
          .to_first_step = Seconds(2),
          .parameters_digest = "0123abcd",
          .losses_digest = "89ef4567",
          .ranks = {{.rank = 0,
                     .first_layer = 1,
                     .last_layer = 5,
                     .budget = Bytes(1 << 30),
                     .predicted_peak = Bytes(900 << 20),
                     .peak = Bytes(896 << 20),
                     .static_bytes = Bytes(256 << 20),
                     .process = Bytes(1280 << 20),
                     .reserved = Bytes(1000 << 20),
                     .step = Seconds(0.48),
                     .predicted_step = Seconds(0.375),
                     .forward = Seconds(0.1),
                     .backward = Seconds(0.2),
                     .recompute = Seconds(0.05),
                     .predicted_recompute = Seconds(0.04),
                     .copy = Seconds(0.02),
                     .copy_wait = Seconds(0.005),
                     .wait = Seconds(0.125),
                     .workspaces = Bytes(32 << 20),
                     .outside = Bytes(512 << 20),
                     .gathered = 3,
                     .optimizer_away = Bytes(64 << 20),
                     .weights_away = Bytes(8 << 20),
                     .update = Seconds(0.0625),
                     .update_wait = Seconds(0.0025)},
                    {.rank = 1,
                     .first_layer = 6,
                     .last_layer = 14,
                     .peak = Bytes(512),
                     .forward = Seconds(0.25),
                     .backward = Seconds(0.25)}}};
}

}  // namespace trireme::record
