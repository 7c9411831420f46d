#include "gram/dispatch.hpp"

#include <cstring>

namespace mercer {
namespace {

#ifdef __ARM_NEON
constexpr bool kBaselineCountsBits = true;
#else
constexpr bool kBaselineCountsBits = false;
#endif

constexpr Implementation kBaseline{"baseline",
                                   baseline::block,
                                   baseline::matvec,
                                   baseline::matvec_single,
                                   baseline::block_single,
                                   baseline::block_rounded,
                                   baseline::block_values,
                                   baseline::pair_steps,
                                   baseline::newton_steps,
                                   baseline::pair_steps_single,
                                   baseline::newton_steps_single,
                                   baseline::joint_steps,
                                   baseline::joint_steps_single,
                                   baseline::edit_distances,
                                   baseline::subsequences,
                                   baseline::alignments,
                                   baseline::word_pairs,
                                   baseline::word_transform,
                                   baseline::transform_units,
                                   baseline::combine,
                                   baseline::combine_single,
                                   baseline::row_products,
                                   baseline::row_squares,
                                   baseline::weighted_sums,
                                   baseline::column_squares,
                                   baseline::class_epoch,
                                   baseline::class_step,
                                   baseline::row_terms,
                                   baseline::term_line,
                                   baseline::newton_pass,
                                   baseline::bit_tile,
                                   kBaselineCountsBits};
#ifdef MERCER_HAVE_X86
constexpr Implementation kAvx2{"avx2",
                               avx2::block,
                               avx2::matvec,
                               avx2::matvec_single,
                               avx2::block_single,
                               avx2::block_rounded,
                               avx2::block_values,
                               avx2::pair_steps,
                               avx2::newton_steps,
                               avx2::pair_steps_single,
                               avx2::newton_steps_single,
                               avx2::joint_steps,
                               avx2::joint_steps_single,
                               avx2::edit_distances,
                               avx2::subsequences,
                               avx2::alignments,
                               avx2::word_pairs,
                               avx2::word_transform,
                               avx2::transform_units,
                               avx2::combine,
                               avx2::combine_single,
                               avx2::row_products,
                               avx2::row_squares,
                               avx2::weighted_sums,
                               avx2::column_squares,
                               avx2::class_epoch,
                               avx2::class_step,
                               avx2::row_terms,
                               avx2::term_line,
                               avx2::newton_pass,
                               avx2::bit_tile,
                               true};
constexpr Implementation kAvx512{"avx512",
                                 avx512::block,
                                 avx512::matvec,
                                 avx512::matvec_single,
                                 avx512::block_single,
                                 avx512::block_rounded,
                                 avx512::block_values,
                                 avx512::pair_steps,
                                 avx512::newton_steps,
                                 avx512::pair_steps_single,
                                 avx512::newton_steps_single,
                                 avx512::joint_steps,
                                 avx512::joint_steps_single,
                                 avx512::edit_distances,
                                 avx512::subsequences,
                                 avx512::alignments,
                                 avx512::word_pairs,
                                 avx512::word_transform,
                                 avx512::transform_units,
                                 avx512::combine,
                                 avx512::combine_single,
                                 avx512::row_products,
                                 avx512::row_squares,
                                 avx512::weighted_sums,
                                 avx512::column_squares,
                                 avx512::class_epoch,
                                 avx512::class_step,
                                 avx512::row_terms,
                                 avx512::term_line,
                                 avx512::newton_pass,
                                 avx512::bit_tile,
                                 true};

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}

// The AVX-512 implementation, with the functions for optional extensions that this processor has.
const Implementation& avx512_here() {
    static const Implementation here = [] {
        Implementation chosen = kAvx512;
        if (__builtin_cpu_supports("avx512vpopcntdq")) chosen.bit_tile = avx512_popcnt::bit_tile;
        if (__builtin_cpu_supports("avx512vnni")) {
            chosen.integer_tile = avx512_vnni::integer_tile;
            chosen.integer_row = avx512_vnni::integer_row;
        }
        return chosen;
    }();
    return here;
}
#endif

}  // namespace

const Implementation* find_implementation(const char* name) {
#ifdef MERCER_HAVE_X86
    if (std::strcmp(name, kAvx512.name) == 0) return has_avx512() ? &avx512_here() : nullptr;
    if (std::strcmp(name, kAvx2.name) == 0) return has_avx2() ? &kAvx2 : nullptr;
#endif
    return std::strcmp(name, kBaseline.name) == 0 ? &kBaseline : nullptr;
}

const Implementation& best_implementation() {
#ifdef MERCER_HAVE_X86
    if (has_avx512()) return avx512_here();
    if (has_avx2()) return kAvx2;
#endif
    return kBaseline;
}

}  // namespace mercer
