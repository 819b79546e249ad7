;; A sieve for large texts. It answers "perhaps" or "no", and "no" is certain.
;;
;; `values` says whether a text may hold a word in its normal form (letters and digits alone, in lower case), or
;; something packed: a run of 24 characters of base64, or eight numbers in a row.
;;
;; Of the normal form only every fourth place is looked at. The three characters there, five bits of each, say how far
;; before it words of which length may begin; then the words themselves are asked for, by two bits of a hash.
;;
;; Memory, in bytes:
;;   0x00000  words, 2^18 bits
;;   0x08000  triples, a byte each: bits 0 to 3 for words that begin 0 to 3 bytes before, 4 and 5 for 5 and 8 bytes
;;   0x10000  for each mask of eight bits, the places of its ones
;;   0x11000  normal form, behind the last 16 bytes of what came before
;;   0x14000  text: up to 256 KiB, then 128 zeros if it ends there
(module
  (memory (export "memory") 6 6)
  (global $numbers (mut i32) (i32.const 0))  ;; of a list that may go on
  (global $digit (mut i64) (i64.const 0))    ;; 1 where the last byte was one
  (global $run (mut i64) (i64.const 0))      ;; so many of the last 64 bytes may be of something packed

  (func $prepare
    (local $mask i32) (local $bit i32) (local $to i32)
    (loop $masks
      (local.set $to (i32.add (i32.const 0x10000) (i32.shl (local.get $mask) (i32.const 3))))
      (local.set $bit (i32.const 0))
      (loop $bits
        (if (i32.and (i32.shr_u (local.get $mask) (local.get $bit)) (i32.const 1))
          (then
            (i32.store8 (local.get $to) (local.get $bit))
            (local.set $to (i32.add (local.get $to) (i32.const 1)))))
        (br_if $bits (i32.lt_u (local.tee $bit (i32.add (local.get $bit) (i32.const 1))) (i32.const 8))))
      (br_if $masks (i32.lt_u (local.tee $mask (i32.add (local.get $mask) (i32.const 1))) (i32.const 256)))))
  (start $prepare)

  (func $bit (param $number i64) (result i32)
    (i32.shr_u
      (i32.load8_u (i32.wrap_i64 (i64.shr_u (local.get $number) (i64.const 3))))
      (i32.and (i32.wrap_i64 (local.get $number)) (i32.const 7))))

  (func $known (param $word i64) (result i32)
    (local $hash i64)
    (local.set $hash (i64.mul (local.get $word) (i64.const 0x9e3779b97f4a7c15)))
    (i32.and
      (i32.and
        (call $bit (i64.shr_u (local.get $hash) (i64.const 46)))
        (call $bit (i64.and (i64.shr_u (local.get $hash) (i64.const 28)) (i64.const 0x3ffff))))
      (i32.const 1)))

  ;; Whether a word begins at most three bytes before a place, as its triple's entry says.
  (func $near (param $at i32) (param $entry i32) (result i32)
    (local $text i64)
    (loop $starts
      (if (i32.and (local.get $entry) (i32.const 1))
        (then
          (local.set $text (i64.load (local.get $at)))
          (if (i32.and (local.get $entry) (i32.const 0x1000))
            (then (if (call $known (i64.and (local.get $text) (i64.const 0xffffffffff))) (then (return (i32.const 1))))))
          (if (i32.and (local.get $entry) (i32.const 0x2000))
            (then (if (call $known (local.get $text)) (then (return (i32.const 1))))))))
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      ;; The lengths stay where they are while the starts go by.
      (local.set $entry
        (i32.or
          (i32.and (local.get $entry) (i32.const 0x3000))
          (i32.and (i32.shr_u (local.get $entry) (i32.const 1)) (i32.const 7))))
      (br_if $starts (i32.and (local.get $entry) (i32.const 7))))
    (i32.const 0))

  (func $entry (param $triple i32) (result i32)
    (local $entry i32)
    (local.set $entry (i32.load8_u offset=0x8000 (local.get $triple)))
    (i32.or
      (i32.and (local.get $entry) (i32.const 15))
      (i32.shl (i32.and (local.get $entry) (i32.const 0x30)) (i32.const 8))))

  ;; Whether the normal form may hold a word, up to `end`.
  (func $held (param $end i32) (result i32)
    (local $at i32) (local $triples v128)
    (local.set $at (i32.const 0x11000))
    (loop $steps
      (local.set $triples
        (v128.and
          (i32x4.dot_i16x8_s
            (i16x8.relaxed_dot_i8x16_i7x16_s
              (v128.and (v128.load (local.get $at)) (v128.const i32x4 0x1f1f1f1f 0x1f1f1f1f 0x1f1f1f1f 0x1f1f1f1f))
              (v128.const i32x4 0x20012001 0x20012001 0x20012001 0x20012001))
            (v128.const i32x4 0x04000001 0x04000001 0x04000001 0x04000001))
          (v128.const i32x4 0x7fff 0x7fff 0x7fff 0x7fff)))
      (if (i32.or
            (i32.or
              (i32.load8_u offset=0x8000 (i32x4.extract_lane 0 (local.get $triples)))
              (i32.load8_u offset=0x8000 (i32x4.extract_lane 1 (local.get $triples))))
            (i32.or
              (i32.load8_u offset=0x8000 (i32x4.extract_lane 2 (local.get $triples)))
              (i32.load8_u offset=0x8000 (i32x4.extract_lane 3 (local.get $triples)))))
        (then
          (if (i32.or
                (i32.or
                  (call $near (local.get $at) (call $entry (i32x4.extract_lane 0 (local.get $triples))))
                  (call $near (i32.add (local.get $at) (i32.const 4)) (call $entry (i32x4.extract_lane 1 (local.get $triples)))))
                (i32.or
                  (call $near (i32.add (local.get $at) (i32.const 8)) (call $entry (i32x4.extract_lane 2 (local.get $triples))))
                  (call $near (i32.add (local.get $at) (i32.const 12)) (call $entry (i32x4.extract_lane 3 (local.get $triples))))))
            (then (return (i32.const 1))))))
      (br_if $steps (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 16))) (local.get $end))))
    (i32.const 0))

  ;; Whether 24 bytes in a row may be of something packed, given which of 64 more may not.
  (func $long_run (param $plain i64) (result i32)
    (local $run i64) (local $before i64)
    (local.set $before (global.get $run))
    (global.set $run (i64.clz (local.get $plain)))
    (if (i64.ge_u (i64.add (local.get $before) (i64.ctz (local.get $plain))) (i64.const 24))
      (then (return (i32.const 1))))
    (local.set $run (i64.or (local.get $plain) (i64.shr_u (local.get $plain) (i64.const 1))))
    (local.set $run (i64.or (local.get $run) (i64.shr_u (local.get $run) (i64.const 2))))
    (local.set $run (i64.or (local.get $run) (i64.shr_u (local.get $run) (i64.const 4))))
    (local.set $run (i64.or (local.get $run) (i64.shr_u (local.get $run) (i64.const 8))))
    (i64.ne (i64.and (i64.or (local.get $run) (i64.shr_u (local.get $run) (i64.const 8))) (i64.const 0x1ffffffffff))
            (i64.const 0x1ffffffffff)))

  ;; Which of 64 bytes may stand in a list of numbers: digits, letters of hexadecimal ones, blanks, commas, semicolons.
  (func $may_be_listed (param $at i32) (result i64)
    (local $text v128) (local $bits i64) (local $steps i32)
    (local.set $steps (i32.const 4))
    (loop $steps
      (local.set $text (v128.load (local.get $at)))
      (local.set $bits
        (i64.or
          (i64.shr_u (local.get $bits) (i64.const 16))
          (i64.shl
            (i64.extend_i32_u
              (i8x16.bitmask
                (i8x16.eq
                  (v128.and
                    (i8x16.relaxed_swizzle
                      (v128.const i8x16 17 3 3 3 3 3 3 1 5 9 8 32 16 8 0 0)
                      (v128.and (local.get $text) (v128.const i32x4 0x0f0f0f0f 0x0f0f0f0f 0x0f0f0f0f 0x0f0f0f0f)))
                    (i8x16.relaxed_swizzle
                      (v128.const i8x16 8 0 16 33 2 4 2 4 0 0 0 0 0 0 0 0)
                      (v128.and
                        (i16x8.shr_u (local.get $text) (i32.const 4))
                        (v128.const i32x4 0x0f0f0f0f 0x0f0f0f0f 0x0f0f0f0f 0x0f0f0f0f))))
                  (v128.const i64x2 0 0))))
            (i64.const 48))))
      (local.set $at (i32.add (local.get $at) (i32.const 16)))
      (br_if $steps (local.tee $steps (i32.sub (local.get $steps) (i32.const 1)))))
    (i64.xor (local.get $bits) (i64.const -1)))

  ;; Whether eight numbers may follow one another, given where digits are among 64 more bytes, which end at `end`.
  (func $listed (param $digits i64) (param $end i32) (result i32)
    (local $starts i64) (local $count i32) (local $before i32) (local $outside i64)
    (local.set $starts
      (i64.and (local.get $digits)
        (i64.xor (i64.or (i64.shl (local.get $digits) (i64.const 1)) (global.get $digit)) (i64.const -1))))
    (global.set $digit (i64.shr_u (local.get $digits) (i64.const 63)))
    (local.set $before (global.get $numbers))
    (local.set $count (i32.wrap_i64 (i64.popcnt (local.get $starts))))
    ;; A list that goes on over 64 bytes has three numbers in them: with fewer it ends or begins here, wherever.
    (if (i32.lt_u (local.get $count) (i32.const 3))
      (then
        (global.set $numbers (local.get $count))
        (return (i32.ge_u (i32.add (local.get $before) (local.get $count)) (i32.const 8)))))
    (local.set $outside (i64.xor (i64.const -1) (call $may_be_listed (i32.sub (local.get $end) (i32.const 64)))))
    (if (i64.eqz (local.get $outside))
      (then
        (global.set $numbers (i32.add (local.get $before) (local.get $count)))
        (return (i32.ge_u (global.get $numbers) (i32.const 8)))))
    (global.set $numbers
      (i32.wrap_i64 (i64.popcnt
        (i64.and (local.get $starts)
          (i64.xor (i64.const -1) (i64.shr_u (i64.const -1) (i64.clz (local.get $outside))))))))
    (i32.or
      (i32.ge_u
        (i32.add (local.get $before)
          (i32.wrap_i64 (i64.popcnt
            (i64.and (local.get $starts)
              (i64.sub (i64.shl (i64.const 1) (i64.ctz (local.get $outside))) (i64.const 1))))))
        (i32.const 8))
      (i32.ge_u
        (i32.wrap_i64 (i64.popcnt
          (i64.and (local.get $starts) (i64.xor (local.get $outside) (i64.const -1)))))
        (i32.const 8))))

  ;; 1 where the text may hold a word; else 2 where it may hold something packed. A text comes in pieces, all but the last
  ;; of whole steps of 64 bytes; `first` begins anew.
  (func (export "values") (param $size i32) (param $first i32) (result i32)
    (local $at i32) (local $stop i32) (local $end i32) (local $to i32) (local $steps i32) (local $mask i32)
    (local $plain i64) (local $digits i64) (local $packed i32)
    (local $text v128) (local $class v128)
    (if (local.get $first)
      (then
        (global.set $numbers (i32.const 0))
        (global.set $digit (i64.const 0))
        (global.set $run (i64.const 0))
        (v128.store (i32.const 0x11000) (v128.const i64x2 0 0))))
    (local.set $at (i32.const 0x14000))
    (local.set $stop (i32.add (local.get $at) (local.get $size)))
    (loop $blocks
      (local.set $to (i32.const 0x11010))
      (local.set $end (i32.add (local.get $at) (i32.const 4096)))
      (if (i32.gt_u (local.get $end) (local.get $stop)) (then (local.set $end (local.get $stop))))
      (loop $words
        (local.set $steps (i32.const 4))
        (loop $steps
          (local.set $text (v128.load (local.get $at)))
          ;; By a byte's two halves: 1 a digit, 2 and 4 a letter, 8 one of + - /, 16 an underscore.
          (local.set $class
            (v128.and
              (i8x16.relaxed_swizzle
                (v128.const i8x16 5 7 7 7 7 7 7 7 7 7 6 10 2 10 2 26)
                (v128.and (local.get $text) (v128.const i32x4 0x0f0f0f0f 0x0f0f0f0f 0x0f0f0f0f 0x0f0f0f0f)))
              (i8x16.relaxed_swizzle
                (v128.const i8x16 0 0 8 1 2 20 2 4 0 0 0 0 0 0 0 0)
                (v128.and
                  (i16x8.shr_u (local.get $text) (i32.const 4))
                  (v128.const i32x4 0x0f0f0f0f 0x0f0f0f0f 0x0f0f0f0f 0x0f0f0f0f)))))
          (local.set $plain
            (i64.or
              (i64.shr_u (local.get $plain) (i64.const 16))
              (i64.shl
                (i64.extend_i32_u (i8x16.bitmask (i8x16.eq (local.get $class) (v128.const i64x2 0 0))))
                (i64.const 48))))
          (local.set $digits
            (i64.or
              (i64.shr_u (local.get $digits) (i64.const 16))
              (i64.shl
                (i64.extend_i32_u (i8x16.bitmask (i16x8.shl (local.get $class) (i32.const 7))))
                (i64.const 48))))
          (local.set $mask
            (i32.xor (i32.const 0xffff)
              (i8x16.bitmask
                (i8x16.eq
                  (v128.and (local.get $class) (v128.const i32x4 0x07070707 0x07070707 0x07070707 0x07070707))
                  (v128.const i64x2 0 0)))))
          (local.set $text (v128.or (local.get $text) (v128.const i32x4 0x20202020 0x20202020 0x20202020 0x20202020)))
          (v128.store64_lane 0 (local.get $to)
            (i8x16.relaxed_swizzle (local.get $text)
              (v128.load64_zero offset=0x10000 (i32.shl (i32.and (local.get $mask) (i32.const 255)) (i32.const 3)))))
          (local.set $to (i32.add (local.get $to) (i32.popcnt (i32.and (local.get $mask) (i32.const 255)))))
          (local.set $mask (i32.shr_u (local.get $mask) (i32.const 8)))
          (v128.store64_lane 0 (local.get $to)
            (i8x16.relaxed_swizzle
              (i8x16.shuffle 8 9 10 11 12 13 14 15 0 0 0 0 0 0 0 0 (local.get $text) (local.get $text))
              (v128.load64_zero offset=0x10000 (i32.shl (local.get $mask) (i32.const 3)))))
          (local.set $to (i32.add (local.get $to) (i32.popcnt (local.get $mask))))
          (local.set $at (i32.add (local.get $at) (i32.const 16)))
          (br_if $steps (local.tee $steps (i32.sub (local.get $steps) (i32.const 1)))))
        (if (i32.eqz (local.get $packed))
          (then
            (local.set $packed
              (i32.or
                (call $long_run (local.get $plain))
                (call $listed (local.get $digits) (local.get $at))))))
        (br_if $words (i32.lt_u (local.get $at) (local.get $end))))
      (if (call $held (local.get $to)) (then (return (i32.const 1))))
      (v128.store (i32.const 0x11000) (v128.load (i32.sub (local.get $to) (i32.const 16))))
      (br_if $blocks (i32.lt_u (local.get $at) (local.get $stop))))
    (i32.shl (local.get $packed) (i32.const 1)))
)
