// Tiles of integer rows, for processors with AVX512_VNNI (see simd.hpp).
#include "gram/integer_tile.hpp"

#include "gram/simd.hpp"

namespace mercer::MERCER_ISA {
namespace {

using Integers = VecOf<int32_t>;

constexpr int kIntegers = kLanesOf<int32_t>;
// Half a unit in the last place of float32, relative to the number, plus the rounding error of float64.
constexpr double kHalfUnit = 1.001 * 0x1p-24;
constexpr int kStaged = 64;  // numbers that are converted at a time

template <bool kBytes>
MERCER_INLINE Integers add_products(Integers sum, Integers left, Integers right) {
    const auto total = reinterpret_cast<__m512i>(sum), one = reinterpret_cast<__m512i>(left),
               other = reinterpret_cast<__m512i>(right);
    return reinterpret_cast<Integers>(kBytes ? _mm512_dpbusd_epi32(total, one, other)
                                             : _mm512_dpwssd_epi32(total, one, other));
}

template <bool kBytes>
void tile_of(const int32_t* left, const int32_t* right, int64_t n_units, float factor, float* tile) {
    constexpr int kColumns = 2 * kIntegers;
    Integers low[kTileRows], high[kTileRows];
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) low[r] = high[r] = Integers{};
    for (int64_t k = 0; k < n_units; ++k) {
        const Integers right_low = load_vector(right + k * kColumns);
        const Integers right_high = load_vector(right + k * kColumns + kIntegers);
#pragma GCC unroll 12
        for (int r = 0; r < kTileRows; ++r) {
            const Integers unit = fill(left[k * kTileRows + r]);
            low[r] = add_products<kBytes>(low[r], unit, right_low);
            high[r] = add_products<kBytes>(high[r], unit, right_high);
        }
    }
    const Integers of_low = load_vector(right + n_units * kColumns);
    const Integers of_high = load_vector(right + n_units * kColumns + kIntegers);
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) {
        const Integers row_term = fill(left[n_units * kTileRows + r]);
        store(tile + r * kColumns, factor * __builtin_convertvector(row_term + of_low - 2 * low[r], VecOf<float>));
        store(tile + r * kColumns + kIntegers,
              factor * __builtin_convertvector(row_term + of_high - 2 * high[r], VecOf<float>));
    }
}

MERCER_INLINE Vec absolute(Vec x) { return max(x, -x); }

template <class Stored, class Number>
bool row_of(const Stored* row, int64_t stride, int64_t n_features, double step, int32_t* units) {
    constexpr bool kBytes = sizeof(Number) == 1;
    constexpr double kLeast = kBytes ? 0.0 : -32767.0, kMost = kBytes ? 255.0 : 32767.0;
    constexpr double kRounds = 0x1.8p52;  // x + kRounds - kRounds rounds x to an integer
    using Narrow = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));
    const int64_t n_units = units_of(n_features, kBytes);
    const double inverse = 1.0 / step;
    auto* out = reinterpret_cast<unsigned char*>(units);
    Vec squares{}, sums{};
    Simd<double>::Int are_integers = ~Simd<double>::Int{};
    for (int64_t first = 0; first < n_features; first += kStaged) {
        const int count = static_cast<int>(n_features - first < kStaged ? n_features - first : kStaged);
        alignas(64) double numbers[kStaged];
        alignas(64) int32_t multiples[kStaged];
        alignas(64) Number narrowed[kStaged];
        if (stride == 1)
            for (int j = 0; j < count; ++j) numbers[j] = static_cast<double>(row[first + j]);
        else
            for (int j = 0; j < count; ++j) numbers[j] = static_cast<double>(row[(first + j) * stride]);
        for (int j = count; j < kStaged; ++j) numbers[j] = 0.0;
        for (int j = 0; j < kStaged; j += kLanes) {
            const Vec number = load(numbers + j), multiple = (number * inverse + kRounds) - kRounds;
            are_integers &= (absolute(number - multiple * step) <= kHalfUnit * absolute(number)) &
                            (multiple >= kLeast) & (multiple <= kMost);
            squares += multiple * multiple, sums += multiple;
            const Narrow narrow = __builtin_convertvector(multiple, Narrow);
            __builtin_memcpy(multiples + j, &narrow, sizeof(narrow));
        }
        for (int j = 0; j < kStaged; ++j) narrowed[j] = static_cast<Number>(multiples[j]);
        const int64_t begin = first * static_cast<int64_t>(sizeof(Number)), left = 4 * n_units - begin;
        const int64_t size = static_cast<int64_t>(sizeof(narrowed));
        __builtin_memcpy(out + begin, narrowed, static_cast<std::size_t>(left < size ? left : size));
    }
    int64_t all = -1;
    double square = 0.0, sum = 0.0;
    for (int lane = 0; lane < kLanes; ++lane) all &= are_integers[lane], square += squares[lane], sum += sums[lane];
    if (all == 0 || square >= kMostSquares || (kBytes && sum >= kMostSum)) return false;
    units[n_units + kSquares] = static_cast<int32_t>(square);
    units[n_units + kLift] = kBytes ? static_cast<int32_t>(128.0 * sum) : 0;
    return true;
}

template <class Stored>
bool row_of_either(const void* row, int64_t stride, int64_t n_features, double step, bool bytes, int32_t* units) {
    const auto* numbers = static_cast<const Stored*>(row);
    return bytes ? row_of<Stored, uint8_t>(numbers, stride, n_features, step, units)
                 : row_of<Stored, int16_t>(numbers, stride, n_features, step, units);
}

}  // namespace

void integer_tile(const int32_t* left, const int32_t* right, int64_t n_units, bool bytes, float factor, float* tile) {
    if (bytes) return tile_of<true>(left, right, n_units, factor, tile);
    tile_of<false>(left, right, n_units, factor, tile);
}

bool integer_row(const void* row, Scalar scalar, int64_t stride, int64_t n_features, double step, bool bytes,
                 int32_t* units) {
    return scalar == Scalar::f32 ? row_of_either<float>(row, stride, n_features, step, bytes, units)
                                 : row_of_either<double>(row, stride, n_features, step, bytes, units);
}

}  // namespace mercer::MERCER_ISA
