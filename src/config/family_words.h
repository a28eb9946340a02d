// The keys of config.json that not all families of decoders have, by family.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "foreign_config.h"

#include "trireme/config/job.h"
#include "trireme/io/json.h"

namespace trireme::config {

void read_mistral(const ForeignConfig& config, LlamaSpec& into);
void write_mistral(const LlamaSpec& spec, io::Json& into);
void read_qwen(const ForeignConfig& config, LlamaSpec& into);
void write_qwen(const LlamaSpec& spec, io::Json& into);
void read_granite(const ForeignConfig& config, LlamaSpec& into);
void write_granite(const LlamaSpec& spec, io::Json& into);
void read_smollm3(const ForeignConfig& config, LlamaSpec& into);
void write_smollm3(const LlamaSpec& spec, io::Json& into);
void read_phi3(const ForeignConfig& config, LlamaSpec& into);
void write_phi3(const LlamaSpec& spec, io::Json& into);
void read_gemma(const ForeignConfig& config, LlamaSpec& into);
void read_gemma2(const ForeignConfig& config, LlamaSpec& into);
void write_gemma2(const LlamaSpec& spec, io::Json& into);
void read_gemma3(const ForeignConfig& config, LlamaSpec& into);
void write_gemma3(const LlamaSpec& spec, io::Json& into);

}  // namespace trireme::config
