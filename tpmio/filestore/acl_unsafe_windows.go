// SPDX-License-Identifier: Apache-2.0

package filestore

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// strangerIn returns the first account that the object's access list gives any
// of the rights, other than this process's user, SYSTEM, the administrators
// and the owner ("" for none). No list at all means everybody.
func strangerIn(path string, rights windows.ACCESS_MASK) (string, error) {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION|windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return "", err
	}
	list, _, err := sd.DACL()
	if err != nil {
		return "", err
	}
	if list == nil {
		return "everybody (no access list)", nil
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return "", err
	}
	ours := func(s *windows.SID) bool {
		return s.Equals(user.User.Sid) || trusted(s)
	}
	if !ours(owner) {
		return "its owner " + owner.String(), nil
	}
	for i := uint32(0); i < uint32(list.AceCount); i++ {
		var e *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &e); err != nil {
			return "", err
		}
		const inheritOnly = 0x8
		if e.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE || e.Header.AceFlags&inheritOnly != 0 || e.Mask&(rights|windows.GENERIC_ALL) == 0 {
			continue
		}
		if s := (*windows.SID)(unsafe.Pointer(&e.SidStart)); !ours(s) {
			return s.String(), nil
		}
	}
	return "", nil
}

// trusted are the accounts that own the machine.
func trusted(s *windows.SID) bool {
	return s.IsWellKnown(windows.WinLocalSystemSid) || s.IsWellKnown(windows.WinBuiltinAdministratorsSid) || s.IsWellKnown(windows.WinCreatorOwnerRightsSid)
}
