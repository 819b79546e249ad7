;; Counts its calls in a global and in memory, and answers with both added: 2 when the store is fresh, more when not.
(module
  (memory (export "memory") 1)
  (global $calls (mut i32) (i32.const 0))
  (global $free (mut i32) (i32.const 4096))
  (data (i32.const 64) "{\"type\": \"object\"}")
  (data (i32.const 128) "Counts its calls.")

  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
    (global.set $free (i32.add (local.get $at) (local.get $size)))
    (if (i32.gt_u (global.get $free) (i32.const 65536)) (then unreachable))
    (local.get $at))

  (func (export "near:agent/tool@0.3.0#execute") (param i32 i32 i32 i32 i32) (result i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (i32.store (i32.const 2048) (i32.add (i32.load (i32.const 2048)) (i32.const 1)))
    ;; one digit is enough: '0' + calls + calls
    (i32.store8 (i32.const 1040)
      (i32.add (i32.const 48) (i32.add (global.get $calls) (i32.load (i32.const 2048)))))
    (i32.store8 (i32.const 1024) (i32.const 1))
    (i32.store (i32.const 1028) (i32.const 1040))
    (i32.store (i32.const 1032) (i32.const 1))
    (i32.const 1024))

  (func (export "near:agent/tool@0.3.0#schema") (result i32)
    (i32.store (i32.const 1048) (i32.const 64))
    (i32.store (i32.const 1052) (i32.const 18))
    (i32.const 1048))

  (func (export "near:agent/tool@0.3.0#description") (result i32)
    (i32.store (i32.const 1048) (i32.const 128))
    (i32.store (i32.const 1052) (i32.const 17))
    (i32.const 1048)))
