#include "harness/cli/graph_commands.h"

#include <memory>

#include "harness/cli/arguments.h"
#include "harness/cli/emissions.h"
#include "harness/cli/graph_files.h"
#include "harness/cli/lattice_files.h"

namespace rtfx {

void add_graph(CLI::App& app, int& code) {
  const auto args = std::make_shared<GraphOptions>();
  auto* group = app.add_subcommand(
      "graph", "Make decoding graphs for the decoders ctc_wfst, ctc_wfst_cpu and transducer_wfst.");
  group->require_subcommand(1);
  auto* build = group->add_subcommand("build",
                                      "Build a decoding graph from a tokenizer, a lexicon and an "
                                      "n-gram language model over words.");
  build
      ->add_option("--lexicon", args->lexicon,
                   "Lexicon with a word and its tokens on each line. May be compressed with gzip.")
      ->required()
      ->type_name("FILE");
  build
      ->add_option("--lm", args->lm,
                   "Language model over words, in ARPA format. May be compressed with gzip.")
      ->required()
      ->type_name("FILE");
  build
      ->add_option("--topology", args->topology,
                   "Topology of the graph. normal: standard CTC. compact: CTC in a smaller "
                   "graph, where a token may repeat without a blank. normal_riva: normal, as "
                   "riva-asrlib-decoder builds it. tokens: for transducers.")
      ->type_name("TOPOLOGY");
  build->add_flag("--drop-unspelled", args->drop_unspelled,
                  "Leave out lines of the lexicon with tokens that the tokenizer lacks. Without "
                  "this flag, they are an error.");
  build->callback([args, &code] { code = build_graph_file(*args); });

  auto* imported = group->add_subcommand(
      "import", "Import a decoding graph (TLG or LG) that OpenFst, Kaldi or k2 wrote.");
  imported
      ->add_option("--openfst", args->openfst,
                   "File of the graph, binary or text. May be compressed with gzip.")
      ->required();
  imported
      ->add_option("--words", args->words,
                   "Table of the graph's output labels, with a word and its number on each line.")
      ->required();
  imported
      ->add_option("--blank", args->blank,
                   "Input label of blank in the graph. last: number of tokens + 1. first: 1 in "
                   "EESEN, 0 in k2. none: the graph is an LG without blank. Without this option, "
                   "the graph must show that blank is the last label.")
      ->check(CLI::IsMember({"last", "first", "none"}));
  imported->callback([args, &code] { code = import_graph_file(*args); });

  for (CLI::App* command : {build, imported}) {
    command
        ->add_option("--tokenizer", args->tokenizer,
                     "Tokenizer of the model: a checkpoint, a SentencePiece .model, a vocab.txt "
                     "or a tokenizer.json.")
        ->required();
    command->add_option("--output", args->output, "File for the decoding graph.")->required();
  }
}

void add_emissions(CLI::App& app, int& code) {
  const auto args = std::make_shared<ConfigArguments>();
  auto* command = app.add_subcommand(
      "emissions",
      "Write the log probabilities of a CTC head to emissions.npy for other programs. Uses the "
      "first model, dataset, dtype and batch size. Earlier files are kept as NAME.N.");
  args->add_to(*command);
  command->callback([args, &code] {
    const Config config = args->load();
    code = write_emissions(config, config.output);
  });
}

void add_lattice(CLI::App& app, int& code) {
  struct Arguments {
    ConfigArguments config;
    LatticeOptions options;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command =
      app.add_subcommand("lattice",
                         "Write word lattices of a CTC model for Kaldi and OpenFst. Uses the first "
                         "dataset, and the first decoder ctc_wfst or ctc_wfst_cpu.");
  args->config.add_to(*command);
  command->add_flag("--mbr", args->options.mbr,
                    "Print the words with the fewest expected errors in NIST's CTM format, with "
                    "times and confidences.");
  command->add_flag("--posteriors", args->options.posteriors,
                    "Add the words of each frame and their probabilities to lattices.jsonl.");
  command
      ->add_option("--acoustic-scale", args->options.acoustic_scale,
                   "Factor of acoustic costs in probabilities, best paths and OpenFst files "
                   "(default: the decoder's acoustic_scale).")
      ->check(between(0.0, 1e3));
  command
      ->add_option("--graph-scale", args->options.graph_scale,
                   "Factor of the graph's costs in probabilities, best paths and OpenFst files. If "
                   "both scales are smaller, alternatives become more probable.")
      ->check(between(0.0, 1e3));
  command->callback([args, &code] { code = write_lattices(args->config.load(), args->options); });
}

}  // namespace rtfx
