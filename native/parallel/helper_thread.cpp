#include "parallel/helper_thread.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace mercer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{2}, kRest{500}, kLongestRest{16000};
constexpr int64_t kTrial = 128;  // steps: at least as many without it, then as many with it
constexpr int kPauses = 256;     // between looks at the clock, and before the processor is given away
constexpr uint64_t kLast = uint64_t{1} << 63, kEnd = ~uint64_t{0};  // a message after which it leaves; none follows

Clock::rep now() { return Clock::now().time_since_epoch().count(); }
constexpr Clock::rep ticks(Clock::duration time) { return time.count(); }

// A companion that shares its processor with somebody else comes and goes, and while it is gone nothing goes on. None
// is asked to come for a while then, and for twice as long where the next one does the same soon after.
std::atomic<Clock::rep> rests_until{0}, rest{0};

void begin_rest() {
    const Clock::rep time = now(), last = rest.load();
    if (time < rests_until.load()) return;  // another one has begun it
    const bool is_soon = last > 0 && time - rests_until.load() < last;
    rest.store(is_soon ? std::min(2 * last, ticks(kLongestRest)) : ticks(kRest));
    rests_until.store(time + rest.load());
}

// A moment's rest between two looks at a number.
void pause() {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Looks for a number in a line until `has_come`, or the patience of who looks is at its end.
template <class HasCome>
bool comes_soon(HasCome has_come) {
    Clock::rep until = 0;
    for (int i = 1; !has_come(); ++i) {
        pause();
        if (i % kPauses != 0) continue;
        if (until == 0) until = now() + ticks(kPatience);
        if (now() >= until) return false;
    }
    return true;
}

}  // namespace

Companion::Companion(bool is_wanted, Work work, void* context) : work_(work), context_(context) {
    if (is_wanted && now() >= rests_until.load()) aside_.emplace(serve, this);
}

Companion::~Companion() { dismiss(); }

bool Companion::is_here() const { return is_here_.load(std::memory_order_acquire); }

bool Companion::joins(int64_t n_steps) {
    if (n_steps == 0) began_ = Clock::now();
    if (n_told_ == 0) {
        if (n_steps < kTrial || !is_here()) return false;
        n_alone_ = n_steps, joined_ = Clock::now();
        return true;
    }
    if (n_steps == n_alone_ + kTrial)
        leaves_ = leaves_ || (Clock::now() - joined_) * n_alone_ > (joined_ - began_) * kTrial;
    return false;
}

void Companion::write(Line* lines, uint64_t number, uint64_t mark, const void* message, std::size_t size) {
    Line& line = lines[number % 2];
    std::memcpy(line.content, message, size);
    line.number.store(number | mark, std::memory_order_release);
}

void Companion::tell(const void* message, std::size_t size) { write(told_, ++n_told_, 0, message, size); }

const void* Companion::trade(const void* message, std::size_t size) {
    const bool is_last = leaves_;
    write(told_, ++n_told_, is_last ? kLast : 0, message, size);
    const Line& line = answered_[n_told_ % 2];
    const auto has_come = [&] { return line.number.load(std::memory_order_acquire) == n_told_; };
    if (!comes_soon(has_come)) {
        while (!has_come()) std::this_thread::yield();
        leaves_ = true;
        begin_rest();
    }
    if (is_last) dismiss();
    return line.content;
}

const void* Companion::first_told() { return told(); }

const void* Companion::trade_back(const void* message, std::size_t size) {
    write(answered_, n_heard_ + 1, 0, message, size);
    return told();
}

const void* Companion::told() {
    const Line& line = told_[++n_heard_ % 2];
    uint64_t number = line.number.load(std::memory_order_acquire);
    for (int i = 1; number != n_heard_; number = line.number.load(std::memory_order_acquire), ++i) {
        if (number == kEnd || number == (n_heard_ | kLast)) return nullptr;  // the second without waiting for the first
        pause();
        if (i % kPauses == 0) std::this_thread::yield();
    }
    return line.content;
}

void Companion::serve(void* context, int64_t) {
    auto* self = static_cast<Companion*>(context);
    self->is_here_.store(true, std::memory_order_release);
    self->work_(self->context_);
}

void Companion::dismiss() {
    for (Line& line : told_) line.number.store(kEnd, std::memory_order_release);
    aside_.reset();
    is_here_.store(false, std::memory_order_relaxed);
}

}  // namespace mercer
