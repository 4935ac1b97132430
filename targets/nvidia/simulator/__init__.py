"""PTX simulator: numpy executes and checks every instruction for all threads of many blocks at once."""
