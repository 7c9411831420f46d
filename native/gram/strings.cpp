// Kernels of strings, compiled once per instruction set (see simd.hpp).
#include "gram/strings.hpp"

#include "gram/simd.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {
namespace {

using Bits = uint64_t __attribute__((vector_size(kVectorBytes)));

constexpr int kStrings = 16;  // right strings that are processed at a time
constexpr int kVectors = kStrings / kLanes;
constexpr int kWordBits = 64;

// Up to 16 right strings. Strings are grouped in the order of their lengths, so that a group needs little padding.
struct Group {
    int count = 0;
    int64_t at[kStrings] = {}, length[kStrings] = {}, longest = 0;
};

// Calls use(group) for all groups of right strings.
template <class Use>
MERCER_INLINE void for_each_group(const StringsView& right, Use use) {
    Scratch memory(sizeof(int64_t) * static_cast<std::size_t>(2 * right.count));
    int64_t *order = memory.as<int64_t>(), *spare = order + right.count;
    for (int64_t j = 0; j < right.count; ++j) order[j] = j;
    for (int64_t width = 1; width < right.count; width *= 2) {  // a stable merge sort
        for (int64_t first = 0; first < right.count; first += 2 * width) {
            const int64_t middle = first + width < right.count ? first + width : right.count;
            const int64_t last = middle + width < right.count ? middle + width : right.count;
            for (int64_t a = first, b = middle, at = first; at < last; ++at) {
                const bool left_one = b == last || (a < middle && right.length(order[a]) <= right.length(order[b]));
                spare[at] = order[left_one ? a++ : b++];
            }
        }
        int64_t* sorted = spare;
        spare = order;
        order = sorted;
    }
    for (int64_t first = 0; first < right.count; first += kStrings) {
        Group group;
        group.count = static_cast<int>(right.count - first < kStrings ? right.count - first : kStrings);
        for (int lane = 0; lane < group.count; ++lane) {
            group.at[lane] = order[first + lane];
            group.length[lane] = right.length(order[first + lane]);
        }
        group.longest = group.length[group.count - 1];
        use(group);
    }
}

// The strings of a group as bit patterns. Each letter has a row; in it, word w of lane j has a bit for each position of
// the letter in string j. With many different letters these rows would need memory quadratic in the length. Rare
// letters then have a list of positions instead, and their row is built when it is needed.
struct Patterns {
    int64_t n_words;
    // For each letter: the index of its row; 0 (a row of zeros) if it does not occur; -1 - p if it has a list that
    // begins at place p. The place of letter k of string j is k * 16 + j.
    const int64_t* slots;
    const Bits* rows;       // [slot][word][vector]
    const int64_t* before;  // for each place, the next place of its list, or -1
    Bits* listed;           // the row of a listed letter while it is used; zeros otherwise
    const Bits* last;       // [word][vector]: the bit of each string's last letter
};

constexpr int64_t kTableBytes = 4 << 20;  // bytes of rows for all letters that stay in the cache; lists are used above

MERCER_INLINE uint64_t& word_of(Bits* row, int64_t place) {
    const int64_t lane = place % kStrings;
    return reinterpret_cast<uint64_t*>(row + place / kStrings / kWordBits * kVectors + lane / kLanes)[lane % kLanes];
}

MERCER_INLINE void set_bit(Bits* row, int64_t place) {
    word_of(row, place) |= uint64_t{1} << (place / kStrings % kWordBits);
}

template <bool lists>
MERCER_INLINE void edit_row(const Patterns& patterns, const int32_t* text, int64_t length, Bits* state,
                            const Group& group, double* out) {
    const int64_t width = patterns.n_words * kVectors;
    Bits *up = state, *down = state + width;  // bits of the vertical differences +1 and -1
    for (int64_t w = 0; w < width; ++w) {
        up[w] = ~Bits{};
        down[w] = Bits{};
    }
    Bits score[kVectors];
    for (int lane = 0; lane < kStrings; ++lane)
        score[lane / kLanes][lane % kLanes] = static_cast<uint64_t>(group.length[lane]);
    for (int64_t i = 0; i < length; ++i) {
        const int64_t slot = patterns.slots[text[i]];
        const Bits* match = lists && slot < 0 ? patterns.listed : patterns.rows + slot * width;
        if constexpr (lists)
            for (int64_t at = -1 - slot; at >= 0; at = patterns.before[at]) set_bit(patterns.listed, at);
        Bits right_up[kVectors], right_down[kVectors];  // carried from the word before
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
            right_up[v] = Bits{} + 1;
            right_down[v] = Bits{};
        }
        for (int64_t w = 0; w < patterns.n_words; ++w) {
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v) {
                const int64_t at = w * kVectors + v;
                const Bits p = up[at], m = down[at], last = patterns.last[at];
                const Bits vertical = match[at] | m, equal = match[at] | right_down[v];
                const Bits zero = (((equal & p) + p) ^ p) | equal;
                Bits plus = m | ~(zero | p), minus = p & zero;
                score[v] -= reinterpret_cast<Bits>((plus & last) != 0);  // a true comparison is -1
                score[v] += reinterpret_cast<Bits>((minus & last) != 0);
                const Bits next_up = plus >> (kWordBits - 1), next_down = minus >> (kWordBits - 1);
                plus = (plus << 1) | right_up[v];
                minus = (minus << 1) | right_down[v];
                right_up[v] = next_up;
                right_down[v] = next_down;
                up[at] = minus | ~(vertical | plus);
                down[at] = plus & vertical;
            }
        }
        if constexpr (lists)
            for (int64_t at = -1 - slot; at >= 0; at = patterns.before[at]) word_of(patterns.listed, at) = 0;
    }
    for (int lane = 0; lane < group.count; ++lane)
        out[group.at[lane]] = static_cast<double>(
            group.length[lane] == 0 ? length : static_cast<int64_t>(score[lane / kLanes][lane % kLanes]));
}

// Calls use(letter, place) for each letter of each string of a group.
template <class Use>
MERCER_INLINE void for_each_letter(const StringsView& right, const Group& group, Use use) {
    for (int lane = 0; lane < group.count; ++lane) {
        const int32_t* row = right.row(group.at[lane]);
        for (int64_t k = 0; k < group.length[lane]; ++k) use(row[k], k * kStrings + lane);
    }
}

// Computes the edit distances of all left strings to a group. `slots` and `counts` are 0 for each letter before and
// after the call.
MERCER_INLINE void edit_group(const StringsView& left, const StringsView& right, const Group& group, int64_t* slots,
                              int64_t* counts, double* out, int64_t out_stride) {
    const int64_t n_words = group.longest == 0 ? 1 : (group.longest + kWordBits - 1) / kWordBits;
    const int64_t width = n_words * kVectors;
    int64_t n_different = 0, n_slots = 1;
    for_each_letter(right, group, [&](int32_t letter, int64_t) MERCER_LAMBDA_INLINE {
        if (counts[letter]++ == 0) ++n_different;
    });
    const bool lists = n_different * width * static_cast<int64_t>(sizeof(Bits)) > kTableBytes;
    const int64_t rarely = lists ? n_words : 0;  // a list of at most n_words places costs no more than a row
    for_each_letter(right, group, [&](int32_t letter, int64_t) MERCER_LAMBDA_INLINE {
        if (counts[letter] > rarely && slots[letter] == 0) slots[letter] = n_slots++;
    });
    Scratch bits(sizeof(Bits) * static_cast<std::size_t>((n_slots + 4) * width));
    Bits *rows = bits.as<Bits>(), *listed = rows + n_slots * width, *last = listed + width, *state = last + width;
    for (Bits* word = rows; word < state; ++word) *word = Bits{};
    Scratch list(sizeof(int64_t) * static_cast<std::size_t>(lists ? group.longest * kStrings : 1));
    int64_t* before = list.as<int64_t>();
    for_each_letter(right, group, [&](int32_t letter, int64_t place) MERCER_LAMBDA_INLINE {
        if (slots[letter] > 0) {
            set_bit(rows + slots[letter] * width, place);
        } else {
            before[place] = -1 - slots[letter];
            slots[letter] = -1 - place;
        }
    });
    for (int lane = 0; lane < group.count; ++lane)
        if (group.length[lane] > 0) set_bit(last, (group.length[lane] - 1) * kStrings + lane);
    const Patterns patterns{n_words, slots, rows, before, listed, last};
    for (int64_t i = 0; i < left.count; ++i)
        (lists ? edit_row<true> : edit_row<false>)(patterns, left.row(i), left.length(i), state, group,
                                                   out + i * out_stride);
    for_each_letter(right, group,
                    [&](int32_t letter, int64_t) MERCER_LAMBDA_INLINE { slots[letter] = counts[letter] = 0; });
}

constexpr double kSmallest = 0x1p-1022, kLogSmallest = -708.0;

// Replaces subnormal numbers by 0, because processors handle them slowly and they do not affect the result.
template <bool small>
MERCER_INLINE Vec normal(Vec x) {
    if constexpr (small)
        return x < kSmallest ? Vec{} : x;
    else
        return x;
}

// The tables of dynamic programming for one group. Each row has 16 doubles; a table has one row for each letter of the
// longest string.
struct Tables {
    const double* letters;  // letters of the group; -1 after the end of a string
    double* matches;        // decay^2 at letters equal to the current letter of the left string, 0 at the others
    double* prefixes;       // K'_i of the paper for i = 1 .. length - 1; each table follows a row of zeros
};

// Processes one letter of the left string for subsequences of a given length. `first`: the length is 1, so that no
// shorter subsequences are extended. `last`: the length is the requested one, so that the values are added to the
// total. Fused multiply-adds are explicit; otherwise the compiler might fuse differently in different lanes.
template <bool small, bool first, bool last>
void subsequence_level(const Tables& tables, const double* shorter, double* level_prefixes, int64_t longest, Vec decay,
                       Vec* total) {
    Vec run[kVectors] = {};
    for (int64_t j = 0; j < longest; ++j) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
            const int64_t at = j * kStrings + v * kLanes;
            const Vec match = load_vector(tables.matches + at);
            if constexpr (last) {
                total[v] = first ? total[v] + match : multiply_add(match, load_vector(shorter + at), total[v]);
            } else {
                const Vec matched = first ? match : match * load_vector(shorter + at);
                run[v] = normal<small>(multiply_add(decay, run[v], matched));
                store(level_prefixes + at,
                      normal<small>(multiply_add(decay, load_vector(level_prefixes + at), run[v])));
            }
        }
    }
}

template <bool small>
MERCER_INLINE void subsequence_row(const int32_t* text, int64_t text_length, int64_t length, double decay,
                                   const Tables& tables, const Group& group, double* out) {
    const int64_t table = (group.longest + 1) * kStrings;
    for (int64_t k = 0; k < (length - 1) * table; ++k) tables.prefixes[k] = 0.0;
    const Vec fade = broadcast(decay);
    Vec total[kVectors] = {};
    for (int64_t i = 0; i < text_length; ++i) {
        const double letter = text[i];
        for (int64_t k = 0; k < group.longest * kStrings; k += kLanes)
            store(tables.matches + k, load_vector(tables.letters + k) == letter ? broadcast(decay * decay) : Vec{});
        // Longer subsequences come first, because they need the values of shorter ones before this letter.
        for (int64_t level = length; level >= 1; --level) {
            const double* shorter = level > 1 ? tables.prefixes + (level - 2) * table : nullptr;  // one letter earlier
            double* level_prefixes = tables.prefixes + (level - 1) * table + kStrings;
            const auto evaluate = level == length ? level == 1 ? &subsequence_level<small, true, true>
                                                               : &subsequence_level<small, false, true>
                                  : level == 1    ? &subsequence_level<small, true, false>
                                                  : &subsequence_level<small, false, false>;
            evaluate(tables, shorter, level_prefixes, group.longest, fade, total);
        }
    }
    for (int lane = 0; lane < group.count; ++lane) out[group.at[lane]] = total[lane / kLanes][lane % kLanes];
}

using Ints = Simd<double>::Int;

constexpr int kUnitBits = 256;  // numbers of an alignment are scaled by powers of 2^256
constexpr double kUnit = 0x1p256, kLarge = 0x1p200, kTiny = 0x1p-200;  // numbers outside kTiny to kLarge are scaled
constexpr double kLogUnit = kUnitBits * 0x1.62e42fefa39efp-1;
constexpr double kMostUnscaled = 650.0;  // largest logarithm of a kernel value that is computed without scaling

// 2^(256 units) for units <= 0; 0 below the range of double precision.
MERCER_INLINE Vec power_of_unit(Ints units) {
    const Ints biased = units * kUnitBits + 1023;
    return reinterpret_cast<Vec>((biased > 0 ? biased : Ints{}) << 52);
}

MERCER_INLINE Ints larger(Ints a, Ints b) { return a > b ? a : b; }

// Sums of weights of the alignments that end with a letter of both strings, with a letter of the left string in a gap,
// and with a letter of the right string in a gap; each times 2^(256 exponent).
struct Ends {
    Vec match, left_gap, right_gap;
    Ints exponent;
};

struct AlignmentSum {
    Vec value[kVectors];
    Ints exponent[kVectors];
};

// Processes one letter of the left string. `scores` are the factors of this letter with each letter of a group, 0 after
// the end of a string; `ends` has the state of each letter of the group.
template <bool scaled>
void alignment_letter(const double* scores, int64_t longest, Vec open, Vec extend, Ends* ends, AlignmentSum& total) {
    Ends before[kVectors] = {}, diagonal[kVectors] = {};  // of the letter before, with this and the last left letter
    for (int64_t j = 0; j < longest; ++j) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
            const Ends above = ends[j * kVectors + v], &last = before[v], &corner = diagonal[v];
            const Vec score = load_vector(scores + j * kStrings + v * kLanes);
            const Vec start = scaled ? power_of_unit(-corner.exponent) : broadcast(1.0);
            Ends now;
            now.match = score * (((start + corner.match) + corner.left_gap) + corner.right_gap);
            now.left_gap = multiply_add(open, above.match, extend * above.left_gap);
            now.right_gap = multiply_add(open, last.match + last.left_gap, extend * last.right_gap);
            now.right_gap = score > 0.0 ? now.right_gap : Vec{};
            now.exponent = Ints{};
            if constexpr (scaled) {
                now.exponent = larger(larger(corner.exponent, above.exponent), last.exponent);
                now.match *= power_of_unit(corner.exponent - now.exponent);
                now.left_gap *= power_of_unit(above.exponent - now.exponent);
                now.right_gap *= power_of_unit(last.exponent - now.exponent);
                const Vec largest = max(max(now.match, now.left_gap), now.right_gap);
                const Ints is_large = largest > kLarge, is_tiny = (largest < kTiny) & (now.exponent > 0);
                const Vec factor = is_large ? broadcast(1.0 / kUnit) : (is_tiny ? broadcast(kUnit) : broadcast(1.0));
                now.match *= factor;
                now.left_gap *= factor;
                now.right_gap *= factor;
                now.exponent += is_tiny - is_large;  // a true comparison is -1
                const Ints exponent = larger(total.exponent[v], now.exponent);
                total.value[v] = multiply_add(total.value[v], power_of_unit(total.exponent[v] - exponent),
                                              now.match * power_of_unit(now.exponent - exponent));
                total.exponent[v] = exponent;
            } else {
                total.value[v] += now.match;
            }
            diagonal[v] = above;
            before[v] = ends[j * kVectors + v] = now;
        }
    }
}

MERCER_INLINE double factor_of(const AlignmentFactors& factors, int64_t n_letters, int32_t letter, int32_t other) {
    return factors.letters[factors.are_equal_or_not ? letter != other : letter * n_letters + other];
}

// Computes the logarithms of the kernel values of a left string and a group.
template <bool scaled>
MERCER_INLINE void alignment_row(const StringsView& left, int64_t i, const AlignmentFactors& factors,
                                 const int32_t* letters, const Group& group, double* scores, Ends* ends, double* out) {
    for (int64_t k = 0; k < group.longest * kVectors; ++k) ends[k] = Ends{};
    AlignmentSum total = {};
    for (int64_t k = 0; k < left.length(i); ++k) {
        const int32_t letter = left.row(i)[k];
        for (int64_t at = 0; at < group.longest * kStrings; ++at)
            scores[at] = letters[at] < 0 ? 0.0 : factor_of(factors, left.n_letters, letter, letters[at]);
        alignment_letter<scaled>(scores, group.longest, broadcast(factors.open), broadcast(factors.extend), ends,
                                 total);
    }
    for (int lane = 0; lane < group.count; ++lane) {
        const double sum = total.value[lane / kLanes][lane % kLanes];
        const auto exponent = static_cast<double>(total.exponent[lane / kLanes][lane % kLanes]);
        out[group.at[lane]] = exponent == 0.0 ? __builtin_log1p(sum) : __builtin_log(sum) + exponent * kLogUnit;
    }
}

}  // namespace

void alignments(const StringsView& left, const StringsView& right, const AlignmentFactors& factors, double* out,
                int64_t out_stride) {
    const double growth = factors.largest > 1.0 ? __builtin_log(factors.largest) : 0.0;
    for_each_group(right, [&](const Group& group) {
        const int64_t size = group.longest * kStrings;
        Scratch memory(sizeof(Ends) * static_cast<std::size_t>(group.longest * kVectors + 1));
        Scratch rows(sizeof(double) * static_cast<std::size_t>(size + 1));
        Scratch text(sizeof(int32_t) * static_cast<std::size_t>(size + 1));
        auto* letters = text.as<int32_t>();
        for (int64_t k = 0; k < size; ++k) letters[k] = -1;
        for_each_letter(right, group,
                        [&](int32_t letter, int64_t place) MERCER_LAMBDA_INLINE { letters[place] = letter; });
        for (int64_t i = 0; i < left.count; ++i) {
            const int64_t length = left.length(i), shorter = length < group.longest ? length : group.longest;
            // There are fewer than 2^(sum of lengths) alignments.
            const double most = static_cast<double>(shorter) * growth + static_cast<double>(length + group.longest);
            (most > kMostUnscaled ? alignment_row<true> : alignment_row<false>)(left, i, factors, letters, group,
                                                                                rows.as<double>(), memory.as<Ends>(),
                                                                                out + i * out_stride);
        }
    });
}

void edit_distances(const StringsView& left, const StringsView& right, double* out, int64_t out_stride) {
    Scratch memory(sizeof(int64_t) * static_cast<std::size_t>(2 * right.n_letters + 1));
    int64_t *slots = memory.as<int64_t>(), *counts = slots + right.n_letters;
    for (int64_t k = 0; k < 2 * right.n_letters; ++k) slots[k] = 0;
    for_each_group(right, [&](const Group& group) { edit_group(left, right, group, slots, counts, out, out_stride); });
}

void subsequences(const StringsView& left, const StringsView& right, int64_t length, double decay, double* out,
                  int64_t out_stride) {
    int64_t longest_left = 0;
    for (int64_t i = 0; i < left.count; ++i)
        if (left.length(i) > longest_left) longest_left = left.length(i);
    for_each_group(right, [&](const Group& group) {
        const int64_t row = group.longest * kStrings;
        Scratch memory(sizeof(double) * static_cast<std::size_t>(2 * row + (length - 1) * (row + kStrings)));
        double *letters = memory.as<double>(), *matches = letters + row;
        for (int64_t k = 0; k < row; ++k) letters[k] = -1.0;
        for (int lane = 0; lane < group.count; ++lane)
            for (int64_t k = 0; k < group.length[lane]; ++k)
                letters[k * kStrings + lane] = right.row(group.at[lane])[k];
        const Tables tables{letters, matches, matches + row};
        const bool small = static_cast<double>(longest_left + group.longest) * __builtin_log(decay) < kLogSmallest;
        for (int64_t i = 0; i < left.count; ++i)
            (small ? subsequence_row<true> : subsequence_row<false>)(left.row(i), left.length(i), length, decay, tables,
                                                                     group, out + i * out_stride);
    });
}

}  // namespace mercer::MERCER_ISA
