// SPDX-License-Identifier: Apache-2.0

package edl

// File is one EDL file: `enclave { ... };`, its declarations in their order.
type File struct {
	Decls []Decl
}

// Decl is *Include, *Import, *Record, *Enum or *Block.
type Decl interface{ decl() }

// Include names a C header for both sides, or, in a block, for one.
type Include struct {
	Header string
}

// Import takes functions, and all types, of another file.
type Import struct {
	Pos   Pos
	Path  string
	Names []string // nil: all of them
}

// Record is a struct or a union.
type Record struct {
	Pos     Pos
	Union   bool
	Name    string
	Members []*Param
}

// Enum is an enumeration; Name may be empty.
type Enum struct {
	Pos    Pos
	Name   string
	Values []EnumValue
}

// EnumValue is one constant; Value is nil where C counts on.
type EnumValue struct {
	Name  string
	Value *Value
}

// Block is `trusted { ... };` or `untrusted { ... };`.
type Block struct {
	Trusted  bool
	Includes []*Include
	Funcs    []*Func
}

func (*Include) decl() {}
func (*Import) decl()  {}
func (*Record) decl()  {}
func (*Enum) decl()    {}
func (*Block) decl()   {}

// Func is an ECALL or an OCALL.
type Func struct {
	Pos     Pos
	Name    string
	Trusted bool
	Return  Type
	Params  []*Param

	Public  bool     // ECALLs: the application may call it any time
	Threads bool     // transition_using_threads: a switchless call
	Allow   []string // OCALLs: the private ECALLs that may be made meanwhile
	Errno   bool     // OCALLs: propagate_errno
	Conv    string   // OCALLs: cdecl, stdcall, fastcall or nothing
	Import  bool     // OCALLs: dllimport
}

// Param is a parameter, or a member of a record.
type Param struct {
	Pos   Pos
	Attrs Attrs
	Type  Type
	Name  string
	Dims  []uint64 // of a fixed-size array, outermost first
}

// Attrs are the attributes in brackets.
type Attrs struct {
	In, Out, UserCheck     bool
	Str, WStr              bool // string, wstring
	IsPtr, IsAry, ReadOnly bool
	Size, Count            *Value
}

// Value is a number, or the name of a parameter, member or constant.
type Value struct {
	Name   string
	Number uint64
}

// Class sorts types by what may be done with them.
type Class uint8

// Classes of types.
const (
	Integer Class = iota // with size_t, wchar_t, char and the sized ones
	Floating
	Void
	Struct
	Union
	Enumeration
	Foreign // a name that a C header defines
)

// Type is a C type without array dimensions.
type Type struct {
	Class Class
	Name  string // in C, without struct, union or enum: "unsigned long", "foo"
	Const bool   // what the pointer points to must not be written
	Ptr   int    // number of asterisks
}
